#pragma once

#include <torch/types.h>

namespace propagator::kernels {

// Softmax attention in which query i sees the keys j < prefix and, with
// `sees_itself`, j ≤ i, without it j < i:
//   out_i = Σ_j softmax_j(q_i · k_j / √D) v_j       all (B, H, T, D).
// Queries are taken in blocks, each against the keys it can see, so that about
// half of the T × T work of a masked product is done. It has its own backward.
torch::Tensor causal_attention(const torch::Tensor& q, const torch::Tensor& k,
                               const torch::Tensor& v, int64_t prefix,
                               bool sees_itself);

// The same as one product under a mask of 0 and -∞, in plain operations.
torch::Tensor masked_attention(const torch::Tensor& q, const torch::Tensor& k,
                               const torch::Tensor& v,
                               const torch::Tensor& mask);

// The mask that `causal_attention` stands for: (T, T) of 0 and -∞.
torch::Tensor causal_mask(int64_t tokens, int64_t prefix, bool sees_itself,
                          const torch::TensorOptions& options);

}  // namespace propagator::kernels
