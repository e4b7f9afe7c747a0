#pragma once

#include <torch/types.h>

#include "propagator/kernels/jet_waves.h"

namespace propagator::kernels {

// Attention among the T tokens of each window, through a jet of order 2 at
// most (JetOrders, rows as there):
//   out = softmax(q kᵀ / √D + bias) v,  q (M, N, T, C), kv (M, N, T, 2 C) with
// keys before values, H heads of D = C / H channels, bias (N, H, T, T), a
// constant, or undefined. → (M, N, T, C). Differentiable once.
//
// One pass over each window and head, forward and backward, on the CPU; on
// other devices the layer (nn/window_attention.h) works in plain operations,
// which are also the reference.
torch::Tensor jet_attention(const torch::Tensor& q, const torch::Tensor& kv,
                            const torch::Tensor& bias, int64_t heads,
                            const JetOrders& orders);

// Whether this device has a kernel for it.
bool has_jet_attention(const torch::Device& device);

}  // namespace propagator::kernels
