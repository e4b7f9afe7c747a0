#pragma once

#include "propagator/kernels/greens/green_function.h"

namespace propagator::kernels {

// Where queries and keys are, (B or 1, T, A), time behind space; `hidden`
// (B, Tk) bool, keys without weight, or undefined.
struct GreenTokens {
  torch::Tensor queries, keys, hidden = {};
};

// Attention with a Green's function as its bias,
//   out_i = Σ_j softmax_j(q_i · k_j / √D + Γ_ij) v_j,
// q (B, H, Tq, D), k and v (B, H, Tk, D) → (B, H, Tq, D), with Γ of
// green_function.h from the places of the tokens, the same for all heads; of
// the kind `none` it is plain attention, without hidden keys. Queries and keys
// may be different sets. Γ is computed where it is used and the softmax as keys
// pass by, so that memory grows with the number of tokens and not with its
// square, forward and backward. Gradients reach q, k, v and the parameters, not
// the coordinates; once, not twice. Sums have a fixed order. A query without a
// visible key gets NaN.
torch::Tensor green_attention(const torch::Tensor& q, const torch::Tensor& k,
                              const torch::Tensor& v, const GreenTerm& term,
                              const GreenTokens& at);

// What the kernels need to know of places, which may stay while q, k and v
// change: whoever asks again with the same ones plans once.
struct GreenPlan {
  torch::Tensor query_places, key_places;  // as GreenInputs has them
  // Tokens in the order of their times, (B, T), and where each of them is in
  // it; empty if times do not matter.
  struct Order {
    torch::Tensor tokens, ranks;
  };
  Order queries, keys;
};
// For such q and k, of which shape, type and device are read.
GreenPlan plan_green_attention(const torch::Tensor& q, const torch::Tensor& k,
                               const GreenTerm& term, const GreenTokens& at);
// q must have a kernel; parameters of the term may differ from the plan's.
torch::Tensor planned_green_attention(const torch::Tensor& q,
                                      const torch::Tensor& k,
                                      const torch::Tensor& v,
                                      const GreenTerm& term,
                                      const GreenPlan& plan);

// The same in plain operations, with all Tq × Tk numbers: the definition.
torch::Tensor green_attention_reference(const torch::Tensor& q,
                                        const torch::Tensor& k,
                                        const torch::Tensor& v,
                                        const GreenTerm& term,
                                        const GreenTokens& at);

// Whether there is a kernel for such heads: of float32 and, on the CPU,
// float64, with a depth that is a multiple of 8 up to 64. Others go through the
// plain operations, for some queries at a time.
bool has_green_attention(const torch::Tensor& q);

// --- What the kernels of a device take and give -----------------------------

struct GreenInputs {
  torch::Tensor q, k, v;  // contiguous
  // (B, 4, length): x, y, z, t as GreenPlace has them. The length is a multiple
  // of 16; what is behind the last token is hidden. Tokens are in the order of
  // their times if the function is_causal, hidden ones last: then what a query
  // does not see is behind what it sees, and costs nothing.
  torch::Tensor query_places, key_places;
  torch::Tensor parameters;  // (4)
  GreenSettings settings;
  bool learns;  // parameters want a gradient
};
struct GreenForward {
  torch::Tensor out;
  // (B, H, Tq), for backward: log Σ_j exp of the scores, in which keys are
  // taken less the first one; on CUDA log₂
  torch::Tensor log_sum;
};
struct GreenGradients {
  torch::Tensor q, k, v, parameters;  // the last: undefined if not learnt
};
GreenForward green_attention_cpu(const GreenInputs& in);
GreenGradients green_attention_backward_cpu(const torch::Tensor& grad,
                                            const GreenInputs& in,
                                            const GreenForward& forward);

}  // namespace propagator::kernels
