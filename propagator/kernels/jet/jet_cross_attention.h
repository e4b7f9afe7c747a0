#pragma once

#include <torch/types.h>

#include "propagator/kernels/jet/jet_orders.h"

namespace propagator::kernels {

// Attention of N points that move to T tokens that do not, through a jet of
// order 2 at most:
//   out = softmax(q kᵀ / √D) v,  q (M, N, C), k and v (T, C), H heads of
// D = C / H channels → (M, N, C). Differentiable once.
//
// Tokens pass by a point; nothing of size N × T is kept, and the backward pass
// computes the weights again. With scores s_0 + s_1 ε + s_2 ε² and w the
// softmax of s_0, the weights are w (1 + t_1 ε + t_2 ε²),
//   t_1 = s_1 - c_1,  t_2 = s_2 + t_1² / 2 - c_2,
// whose centres c are the means with w, so that the sums Σ w t_m v are the
// answer. What adds to all scores alike changes nothing: c need no gradient.
// The same in plain operations is in nn/cross_attention.h.
torch::Tensor jet_cross_attention(const torch::Tensor& q,
                                  const torch::Tensor& k,
                                  const torch::Tensor& v, int64_t heads,
                                  const JetOrders& orders);

// Whether there is a kernel for such queries where they are: on the CPU for
// heads of whole vectors, on a CUDA device in float32 for heads of 16 or 32
// channels and the orders that equations of two or three variables have.
bool has_jet_cross_attention(const torch::Tensor& q, int64_t heads,
                             const JetOrders& orders);

}  // namespace propagator::kernels
