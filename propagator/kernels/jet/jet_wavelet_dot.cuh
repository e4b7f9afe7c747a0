#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "propagator/kernels/jet/jet_orders.h"

namespace propagator::kernels {

// y = Σ_j weight_j waves(x)_j + bias, the layer after jet_wavelet that ends in
// one number: x (M, tokens, width) → y (M, tokens), the bias on y_0 alone. The
// waves stay in registers, there and back.
bool jet_wavelet_dot_has(int64_t width);

struct WaveletDot {
  int64_t tokens, width;
  JetOrders orders;
  const float *x, *w1, *w2, *weight;
};

void launch_jet_wavelet_dot(const WaveletDot& in, const float* bias, float* y,
                            cudaStream_t stream);

// From dy (M, tokens): dx, dweight and dbias; `partial` (2, blocks) takes the
// sums for dw₁ and dw₂ (launch_wavelet_sums), `workspace` (blocks, width + 1)
// is only used on the way.
int64_t jet_wavelet_dot_blocks(const WaveletDot& in);
void launch_jet_wavelet_dot_backward(const WaveletDot& in, const float* dy,
                                     float* dx, float* dweight, float* dbias,
                                     double* partial, float* workspace,
                                     cudaStream_t stream);

}  // namespace propagator::kernels
