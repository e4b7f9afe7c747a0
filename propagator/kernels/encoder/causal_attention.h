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

// The same with backward apart from autograd and everything packed, as a
// projection of tokens gives it: qkv (B, T, 3 C) holds the queries of all
// heads, then the keys, then the values of a token. By kernels that never keep
// the T × T weights where there are some, in plain operations elsewhere.
struct PackedAttention {
  torch::Tensor out;      // (B, T, C)
  torch::Tensor log_sum;  // (B, H, T), for backward: log Σ_j exp(q_i · k_j /
                          // √D), of keys less one of them; on CUDA log₂
};
PackedAttention packed_causal_attention(const torch::Tensor& qkv, int64_t heads,
                                        int64_t prefix, bool sees_itself);
torch::Tensor packed_causal_attention_backward(const torch::Tensor& grad,
                                               const torch::Tensor& qkv,
                                               const PackedAttention& forward,
                                               int64_t heads, int64_t prefix,
                                               bool sees_itself);
// Whether there is a kernel for this device, type and depth of head.
bool packed_attention_is_fused(const torch::Tensor& x, int64_t heads);

// q kᵀ / √D + mask, (B, H, queries, keys); an undefined mask hides nothing.
torch::Tensor attention_scores(const torch::Tensor& q, const torch::Tensor& k,
                               const torch::Tensor& mask = {});

// The same as one product under a mask of 0 and -∞, in plain operations.
torch::Tensor masked_attention(const torch::Tensor& q, const torch::Tensor& k,
                               const torch::Tensor& v,
                               const torch::Tensor& mask);

// The mask that `causal_attention` stands for: (T, T) of 0 and -∞.
torch::Tensor causal_mask(int64_t tokens, int64_t prefix, bool sees_itself,
                          const torch::TensorOptions& options);

}  // namespace propagator::kernels
