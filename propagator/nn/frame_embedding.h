#pragma once

#include <torch/nn/modules/linear.h>

#include "propagator/core/config.h"

namespace propagator::nn {

enum class EmbeddingForm { kPublished, kCollapsed };

struct FrameEmbeddingOptions {
  int64_t rows = 26;
  int64_t cols = 26;
  int64_t width = 512;
  EmbeddingForm form = EmbeddingForm::kCollapsed;
};

// A frame as one token, (B, T, R, C) → (B, T, width).
//   published: sinusoidal encodings of y and x with F = width/2 features are
//     added to every pixel, the R·C·F numbers are flattened and projected;
//   collapsed: since the encodings are added, that projection is
//     W̃ frame + b̃ with W̃[o, p] = Σ_f W[o, p, f] and b̃ = b + W enc:
//     the same function with F times fewer parameters and products.
// The published form has all its parameters, and gradients to match, but is
// computed through W̃ and b̃, so that no R·C·F numbers are made for any frame.
class FrameEmbeddingImpl : public torch::nn::Module {
 public:
  explicit FrameEmbeddingImpl(const FrameEmbeddingOptions& options);

  torch::Tensor forward(const torch::Tensor& frames);
  // Makes this collapsed embedding the same function as a published one.
  void collapse_from(const FrameEmbeddingImpl& published);

 private:
  // W̃ (width, R·C) and b̃ (width) of a published form.
  std::pair<torch::Tensor, torch::Tensor> collapsed() const;

  FrameEmbeddingOptions options_;
  torch::Tensor encoding_;  // (R·C, F), published only
  torch::nn::Linear projection_;
};
TORCH_MODULE(FrameEmbedding);

}  // namespace propagator::nn

namespace propagator::config {

template <>
struct Names<nn::EmbeddingForm> {
  using enum nn::EmbeddingForm;
  static constexpr std::pair<nn::EmbeddingForm, const char*> all[] = {
      {kPublished, "published"}, {kCollapsed, "collapsed"}};
};

}  // namespace propagator::config
