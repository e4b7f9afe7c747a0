#pragma once

#include <torch/types.h>

#include <functional>
#include <memory>
#include <optional>

#include "propagator/kernels/greens/green_attention.h"

namespace propagator::nn {

// Where queries and keys are, (B, Tq, A) and (B, Tk, A) on A axes.
struct AttentionCoordinates {
  torch::Tensor queries, keys;
};

// Logits from coordinates, → (B, H or 1, Tq, Tk); -∞ where a key is out of a
// query's support. Autograd reaches its parameters, so it should hide keys by
// masked_fill: the logarithm of 0 has no gradient that is finite.
using LogitFunction =
    std::function<torch::Tensor(const AttentionCoordinates& at)>;

// Which keys a query attends to, and what is added to its scores:
//   weights_ij = softmax_j(R_i q_i · R_j k_j / √D + b_ij),
// b_ij = -∞ for a key that is hidden. Each member says one thing, and what they
// say is added up:
//   keys: all; the first `prefix`; or those and, causally, the earlier ones,
//     j < i, with itself j ≤ i
//   window: tokens attend only inside their run of so many tokens
//   padding: keys of a batch row that are hidden
//   slopes: ALiBi, b_ij = -m_h |p_i - p_j|
//   frequencies: RoPE, R rotates pairs of channels by angles p · frequency
//   green: the logarithm of a Green's function of the coordinates; its global
//     tokens have b_ij = 0; `plan`, where it is given, is of the same places
//     and saves the kernel to look at them again
//   logits: any function of the coordinates
//   hard: a query takes the value of its best key alone, the first of several;
//     no gradient reaches the scores
// Coordinates enter as constants. A query must have a visible key.
struct AttentionBias {
  enum class Keys { kAll, kPrefix, kCausal };
  Keys keys = Keys::kAll;
  int64_t prefix = 0;
  bool sees_itself = false;
  int64_t window = 0;         // 0: no windows
  torch::Tensor padding;      // (B, Tk) bool
  torch::Tensor slopes;       // (H, 1, 1)
  torch::Tensor frequencies;  // (A, D / 2)
  std::optional<kernels::GreenTerm> green;
  std::shared_ptr<const kernels::GreenPlan> plan;
  LogitFunction logits;
  AttentionCoordinates at;
  bool hard = false;

  static AttentionBias full() { return {}; }
  static AttentionBias visible_prefix(int64_t prefix);
  static AttentionBias causal(int64_t prefix = 0, bool sees_itself = true);
  static AttentionBias windows(int64_t window);
  static AttentionBias padded(const torch::Tensor& padding);
  // Undefined slopes or frequencies: none of it.
  static AttentionBias alibi(const torch::Tensor& slopes,
                             const AttentionCoordinates& at);
  static AttentionBias rope(const torch::Tensor& frequencies,
                            const AttentionCoordinates& at);
  static AttentionBias greens(const kernels::GreenTerm& green,
                              const AttentionCoordinates& at);
  static AttentionBias of(LogitFunction logits, const AttentionCoordinates& at);

  // Whether it depends on the numbers of queries and keys alone.
  bool by_number() const;

  // All that is added, (B or 1, H or 1, Tq, Tk); undefined: nothing.
  torch::Tensor added(int64_t queries, int64_t keys,
                      const torch::TensorOptions& options) const;
  // The angles of RoPE, (B, T, D / 2).
  torch::Tensor angles(const torch::Tensor& coordinates) const;
};

// m_h = scale · 2^(-8 h / H), h = 1 … H, (H, 1, 1) in float64.
torch::Tensor alibi_slopes(int64_t heads, double scale = 1);
// (A, D / 2) in float64: pair n belongs to axis n mod A, and the pairs of an
// axis have the frequencies 2π · 10^(-rank / pairs of the axis).
torch::Tensor rope_frequencies(int64_t axes, int64_t pairs);
// Pairs of channels of x (…, D) rotated by angles (…, D / 2).
torch::Tensor rotated(const torch::Tensor& x, const torch::Tensor& angles);

// Attention in plain operations, for any bias: it defines what kernels compute.
// q (B, H, Tq, D), k and v (B, H, Tk, D) → (B, H, Tq, D). `factors` (B, H, Tq,
// Tk) multiply the weights, as a dropout does; undefined: none.
torch::Tensor attention_reference(const torch::Tensor& q,
                                  const torch::Tensor& k,
                                  const torch::Tensor& v,
                                  const AttentionBias& bias,
                                  const torch::Tensor& factors = {});
// The softmax itself, (B, H, Tq, Tk); of hard attention 1 for one key.
torch::Tensor attention_weights(const torch::Tensor& q, const torch::Tensor& k,
                                const AttentionBias& bias);

}  // namespace propagator::nn
