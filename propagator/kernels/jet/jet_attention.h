#pragma once

#include <torch/types.h>

#include "propagator/kernels/jet/jet_orders.h"

namespace propagator::kernels {

// Attention among the T tokens of each window, through a jet of order 2 at
// most:
//   out = softmax(q kᵀ / √D + bias) v,  q (M, N, T, C), kv (M, N, T, 2 C) with
// keys before values, H heads of D = C / H channels, bias (N, H, T, T), a
// constant, or undefined. → (M, N, T, C). Differentiable once.
//
// One pass over each window, forward and backward, which computes its weights
// again. The layer (nn/window_attention.h) has the same in plain operations:
// the reference, and for where there is no kernel.
torch::Tensor jet_attention(const torch::Tensor& q, const torch::Tensor& kv,
                            const torch::Tensor& bias, int64_t heads,
                            const JetOrders& orders);

// Whether there is a kernel for such queries where they are: on the CPU, and
// on a CUDA device for windows of which one fits in a block's memory.
bool has_jet_attention(const torch::Tensor& q, int64_t heads,
                       const JetOrders& orders);

}  // namespace propagator::kernels
