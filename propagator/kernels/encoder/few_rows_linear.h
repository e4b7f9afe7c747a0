#pragma once

#include <torch/types.h>

namespace propagator::kernels {

// y = x Wᵀ + b for a few rows of x: (n, I), (O, I), (O) or undefined → (n, O).
// A product library packs W first, which for few rows costs more than the
// product; here W is read once, straight from memory. No gradient. On the CPU
// in float32 or float64; elsewhere the reference is used.
torch::Tensor few_rows_linear(const torch::Tensor& x, const torch::Tensor& w,
                              const torch::Tensor& bias);

// Up to this many rows it is the faster way.
inline constexpr int64_t kFewRows = 16;

// The same by the library.
torch::Tensor few_rows_linear_reference(const torch::Tensor& x,
                                        const torch::Tensor& w,
                                        const torch::Tensor& bias);

}  // namespace propagator::kernels
