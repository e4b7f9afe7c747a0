#pragma once

#include <torch/nn/modules/linear.h>

#include "propagator/autodiff/jet.h"
#include "propagator/nn/attention_bias.h"
#include "propagator/nn/learned_prefix.h"
#include "propagator/nn/tuned_part.h"

namespace propagator::nn {

// How tokens that are points in space and time know where they are relative
// to each other.
enum class RelativePosition { kNone, kRope, kAlibi };

// Where the tokens of a window are, on axes that are scaled to [0, 1]:
// (N, T, A). Undefined without relative positions.
struct WindowPlaces {
  torch::Tensor places;
};

struct WindowAttentionOptions {
  int64_t width = 32;
  int64_t heads = 2;
  RelativePosition position = RelativePosition::kNone;
  int64_t axes = 0;  // of the places
};

// Attention among the T tokens of a window, on jets, with biases:
//   softmax(q_i · k_j / √D + bias_ij) v_j, mixed by one more linear layer.
// A bias is given, or made from the places by alibi_slopes or rope_frequencies
// (attention_bias.h).
// Directions move all tokens of a window together. Then p_i - p_j does not
// change, and what relative positions do to the scores has no derivative: the
// places enter as constants, which is exact. (Around a ring it keeps its length
// alone, which is enough for alibi.) A fine-tuning may add learned keys and
// values (learned_prefix.h), which have no place and are asked before rotation.
class WindowAttentionImpl : public torch::nn::Module, public TakesPrefix {
 public:
  explicit WindowAttentionImpl(const WindowAttentionOptions& options);

  // Queries from x, keys and values from `source`, both (M; N, T, C).
  autodiff::Jet forward(const autodiff::Jet& x, const autodiff::Jet& source,
                        const WindowPlaces& where);

  // The same with any bias whose logits depend on differences of coordinates.
  autodiff::Jet attend(const autodiff::Jet& x, const autodiff::Jet& source,
                       const AttentionBias& bias);

  void add_prefix(int64_t tokens) override;

  // The mixing in plain operations: what the kernel means. Queries (M; N, T,
  // C), keys and values (M; N, T, 2 C), `added` (N, H, T, T) or undefined.
  autodiff::Jet mix(const autodiff::Jet& query, const autodiff::Jet& both,
                    const torch::Tensor& added) const;

 private:
  AttentionBias bias_of(const WindowPlaces& where) const;
  autodiff::Jet heads_of(const autodiff::Jet& x) const;  // (M; N, H, T, D)
  autodiff::Jet rotated_heads(const autodiff::Jet& x,
                              const torch::Tensor& angles) const;

  WindowAttentionOptions options_;
  torch::nn::Linear query_, key_value_, output_;
  LearnedPrefix prefix_{nullptr};
  torch::Tensor slopes_;       // (H, 1, 1)
  torch::Tensor frequencies_;  // (A, D / 2), one row of zeros but its pairs
};
TORCH_MODULE(WindowAttention);

}  // namespace propagator::nn
