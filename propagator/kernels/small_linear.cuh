#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace propagator::kernels {

// A linear layer of narrow tokens, x (rows, 32) → y (rows, outputs), weight
// (outputs, 32), where a library of large products is far from what memory
// allows. The first `with_bias` rows get the bias. All contiguous, at multiples
// of 16 bytes.
constexpr int64_t kSmallInputs = 32;
bool small_linear_has(int64_t inputs, int64_t outputs);

void launch_small_linear(int64_t rows, int64_t with_bias, int64_t outputs,
                         const float* x, const float* weight, const float* bias,
                         float* y, cudaStream_t stream);

// dx, unless null; dweight and dbias, by way of `workspace`, which has
// small_linear_workspace numbers.
int64_t small_linear_workspace(int64_t rows, int64_t outputs);
void launch_small_linear_backward(int64_t rows, int64_t with_bias,
                                  int64_t outputs, const float* x,
                                  const float* dy, const float* weight,
                                  float* dx, float* dweight, float* dbias,
                                  float* workspace, cudaStream_t stream);

}  // namespace propagator::kernels
