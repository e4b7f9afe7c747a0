#pragma once

#include <torch/types.h>

namespace propagator::kernels {

// The maps that make a token of a number.
struct ValueTokenWeights {
  torch::Tensor in, in_bias;  // (C, 1), (C)
  torch::Tensor out;          // (C, C)
  torch::Tensor offsets;      // (T, C)
};

// A token of each number of x (N, T): offset_t + W gelu(v x + b), → (N, T, C).
// Some numbers at a time, and the slope of gelu with its value. Differentiable
// once; its sums have a fixed order.
torch::Tensor value_tokens(const torch::Tensor& x,
                           const ValueTokenWeights& weights);

// The same in plain operations: the meaning.
torch::Tensor value_tokens_reference(const torch::Tensor& x,
                                     const ValueTokenWeights& weights);

// Whether there is a kernel: on the CPU, in float32 and float64, for widths
// that fill vectors.
bool has_value_tokens(const torch::Tensor& x, const ValueTokenWeights& weights);

}  // namespace propagator::kernels
