#include "propagator/nn/frame_embedding.h"

#include <torch/utils.h>

#include "propagator/nn/linear.h"
#include "propagator/nn/positional_encoding.h"

namespace propagator::nn {
namespace {

int64_t input_size(const FrameEmbeddingOptions& o) {
  const int64_t features =
      o.form == EmbeddingForm::kPublished ? o.width / 2 : 1;
  return o.rows * o.cols * features;
}

}  // namespace

FrameEmbeddingImpl::FrameEmbeddingImpl(const FrameEmbeddingOptions& options)
    : options_(options), projection_(input_size(options), options.width) {
  register_module("projection", projection_);
  if (options.form == EmbeddingForm::kPublished) {
    const int64_t features = options.width / 2;
    const auto y = sinusoidal_encoding(options.rows, features, torch::kFloat32);
    const auto x = sinusoidal_encoding(options.cols, features, torch::kFloat32);
    encoding_ = register_buffer(
        "encoding", (y.unsqueeze(1) + x.unsqueeze(0)).flatten(0, 1));
  }
}

torch::Tensor FrameEmbeddingImpl::forward(const torch::Tensor& frames) {
  auto pixels = frames.flatten(2);  // (B, T, R·C)
  if (options_.form == EmbeddingForm::kPublished) {
    pixels = (pixels.unsqueeze(-1) + encoding_).flatten(2);  // (B, T, R·C·F)
  }
  return apply_linear(projection_, pixels);
}

void FrameEmbeddingImpl::collapse_from(const FrameEmbeddingImpl& published) {
  const torch::NoGradGuard no_grad;
  const auto& w = published.projection_->weight;  // (width, R·C·F)
  const auto per_pixel = w.view(
      {options_.width, options_.rows * options_.cols, options_.width / 2});
  projection_->weight.copy_(per_pixel.sum(2));
  projection_->bias.copy_(published.projection_->bias +
                          torch::mv(w, published.encoding_.flatten()));
}

}  // namespace propagator::nn
