#pragma once

#include "propagator/autodiff/jet.h"

namespace propagator::nn {

// Attention of points that move, queries (M; N, C), to tokens that do not,
// keys and values (T, C), in heads: softmax(q kᵀ / √D) v → (M; N, C).
autodiff::Jet cross_attention(const autodiff::Jet& queries,
                              const torch::Tensor& keys,
                              const torch::Tensor& values, int64_t heads);

// The same in plain operations, which keep N × T weights.
autodiff::Jet cross_attention_reference(const autodiff::Jet& queries,
                                        const torch::Tensor& keys,
                                        const torch::Tensor& values,
                                        int64_t heads);

// The weights of its softmax alone, (H, N, T), of queries (N, C).
torch::Tensor cross_attention_weights(const torch::Tensor& queries,
                                      const torch::Tensor& keys, int64_t heads);

}  // namespace propagator::nn
