#pragma once

#include <torch/types.h>

namespace propagator::kernels {

// Attention of one new token to all cached ones, for each case and head:
//   out = Σ_j softmax_j(q · k_j / √D) v_j
// q (B, H, 1, D); keys, values (B, H, capacity, D), of which the first
// `length` are used; returns (B, H, 1, D). One pass over the cache. No
// gradient. On the CPU in float32 or float64, on CUDA in float32 for the usual
// depths; elsewhere the reference is used.
torch::Tensor cached_attention(const torch::Tensor& q,
                               const torch::Tensor& keys,
                               const torch::Tensor& values, int64_t length);

// The same in plain operations, for any number of new tokens.
torch::Tensor cached_attention_reference(const torch::Tensor& q,
                                         const torch::Tensor& keys,
                                         const torch::Tensor& values,
                                         int64_t length);

}  // namespace propagator::kernels
