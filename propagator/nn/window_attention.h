#pragma once

#include <torch/nn/modules/linear.h>

#include "propagator/autodiff/jet.h"

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
// alibi: bias_ij = -m_h |p_i - p_j|, slopes m_h = 2^(-8 h / H), h = 1 … H.
// rope: pairs of channels of q and k turned by angles proportional to the
//   places; the pairs are shared out among the axes, and each has its own
//   frequency 2π · 10^(-n / pairs of the axis).
// Directions move all tokens of a window together. Then p_i - p_j does not
// change, and what relative positions do to the scores has no derivative: the
// places enter as constants, which is exact. (Around a ring it keeps its length
// alone, which is enough for alibi.)
class WindowAttentionImpl : public torch::nn::Module {
 public:
  explicit WindowAttentionImpl(const WindowAttentionOptions& options);

  // Queries from x, keys and values from `source`, both (M; N, T, C).
  autodiff::Jet forward(const autodiff::Jet& x, const autodiff::Jet& source,
                        const WindowPlaces& where);

  // The mixing in plain operations: what the kernel means. Queries (M; N, T,
  // C), keys and values (M; N, T, 2 C).
  autodiff::Jet mix(const autodiff::Jet& query, const autodiff::Jet& both,
                    const torch::Tensor& bias) const;

 private:
  torch::Tensor bias_of(const WindowPlaces& where) const;  // (N, H, T, T)
  autodiff::Jet heads_of(const autodiff::Jet& x) const;    // (M; N, H, T, D)
  autodiff::Jet turned(const autodiff::Jet& x,
                       const torch::Tensor& angles) const;

  WindowAttentionOptions options_;
  torch::nn::Linear query_, key_value_, output_;
  torch::Tensor slopes_;       // (H, 1, 1)
  torch::Tensor frequencies_;  // (A, D / 2), one row of zeros but its pairs
};
TORCH_MODULE(WindowAttention);

}  // namespace propagator::nn
