#pragma once

#include <torch/types.h>

namespace propagator::kernels {

// What attention among the tokens of a set takes beside them.
struct SetAttentionOptions {
  int64_t heads = 1;
  int64_t wanted = 0;          // answers for the first Q tokens
  torch::Tensor padding = {};  // (B, T) bool, keys without weight; or undefined
  torch::Tensor factors = {};  // (B, H, Q, T), times the weights; or undefined
};

// Softmax attention among the T tokens of each of B sets, with keys left out:
//   out_i = Σ_j f_ij softmax_j(q_i · k_j / √D | j not padding) v_j,
// qkv (B, T, 3 C), the queries of all H heads, then keys, then values of a
// token → (B, Q, C). Padding has no influence at all, not even on rounding. A
// set must have a token that is none. Differentiable once.
//
// On the CPU small sets take one pass over each set and head; a product for
// each of them, as a batched product does, costs more than its work.
torch::Tensor set_attention(const torch::Tensor& qkv,
                            const SetAttentionOptions& options);

// The same in plain operations: the reference, and for where there is no
// kernel.
torch::Tensor set_attention_reference(const torch::Tensor& qkv,
                                      const SetAttentionOptions& options);

// Whether `set_attention` has a kernel for such sets: small ones on the CPU,
// whose heads are whole vectors.
bool has_set_attention(const torch::Tensor& qkv, int64_t heads);

}  // namespace propagator::kernels
