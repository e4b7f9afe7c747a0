#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "propagator/kernels/jet_orders.h"

namespace propagator::kernels {

// y = Σ_j weight_j waves(x)_j + bias, the layer after jet_waves that ends in
// one number: x (M, tokens, width) → y (M, tokens), the bias on y_0 alone. The
// waves stay in registers, there and back.
bool jet_waves_dot_has(int64_t width);

struct WavesDot {
  int64_t tokens, width;
  JetOrders orders;
  const float *x, *w1, *w2, *weight;
};

void launch_jet_waves_dot(const WavesDot& in, const float* bias, float* y,
                          cudaStream_t stream);

// From dy (M, tokens): dx, dweight and dbias; `partial` (2, blocks) takes the
// sums for dw₁ and dw₂ (launch_wave_sums), `workspace` (blocks, width + 1) is
// only used on the way.
int64_t jet_waves_dot_blocks(const WavesDot& in);
void launch_jet_waves_dot_backward(const WavesDot& in, const float* dy,
                                   float* dx, float* dweight, float* dbias,
                                   double* partial, float* workspace,
                                   cudaStream_t stream);

}  // namespace propagator::kernels
