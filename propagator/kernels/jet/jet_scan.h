#pragma once

#include <torch/types.h>

#include "propagator/kernels/jet/jet_orders.h"

namespace propagator::kernels {

// What a scan takes: x and delta (M, N, T, I), b and c (M, N, T, S), jets all
// of them; a (I, S), the states' rates, and d (I), both constant.
struct JetScanInputs {
  torch::Tensor x, delta, a, b, c, d;
};

// The selective scan over the T tokens of each window, through a jet of order
// 2 at most:
//   h_t = exp(δ_t a) h_{t-1} + δ_t x_t b_t,  y_t = Σ_s c_t h_t + d x_t.
// → (M, N, T, I). Differentiable once.
//
// One pass, which keeps no states: the backward pass recomputes them. The layer
// (nn/selective_scan.h) has the same in plain operations: the reference, and
// for where there is no kernel.
torch::Tensor jet_scan(const JetScanInputs& in, const JetOrders& orders);

// Whether there is a kernel for windows like x: not for very many tokens or
// directions.
bool has_jet_scan(const torch::Tensor& x, const JetOrders& orders);

}  // namespace propagator::kernels
