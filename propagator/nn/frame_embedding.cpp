#include "propagator/nn/frame_embedding.h"

#include <torch/csrc/autograd/custom_function.h>
#include <torch/utils.h>

#include "propagator/kernels/encoder/collapse.h"
#include "propagator/nn/fused_layer.h"
#include "propagator/nn/linear.h"
#include "propagator/nn/positional_encoding.h"

namespace propagator::nn {
namespace {

int64_t input_size(const FrameEmbeddingOptions& o) {
  const int64_t features =
      o.form == EmbeddingForm::kPublished ? o.width / 2 : 1;
  return o.rows * o.cols * features;
}

using Tensors = torch::autograd::variable_list;

// Σ_f w and w · encoding; the gradient of w is added where it is kept, since
// making it first would cost as much again.
struct Collapse : torch::autograd::Function<Collapse> {
  static Tensors forward(torch::autograd::AutogradContext* context,
                         torch::Tensor w, torch::Tensor encoding) {
    const auto parts = kernels::collapse(w, encoding);
    context->save_for_backward({w, encoding});
    return {parts.weight, parts.offset};
  }
  static Tensors backward(torch::autograd::AutogradContext* context,
                          Tensors upstream) {
    const auto saved = context->get_saved_variables();
    kernels::collapse_backward(gradient_of(saved[0]), upstream[0].contiguous(),
                               upstream[1].contiguous(), saved[1]);
    return {torch::Tensor(), torch::Tensor()};
  }
};

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

std::pair<torch::Tensor, torch::Tensor> FrameEmbeddingImpl::collapsed() const {
  const auto parts = Collapse::apply(projection_->weight, encoding_);
  return {parts[0], projection_->bias + parts[1]};
}

torch::Tensor FrameEmbeddingImpl::forward(const torch::Tensor& frames) {
  const auto pixels = frames.flatten(2);  // (B, T, R·C)
  if (options_.form == EmbeddingForm::kCollapsed) {
    return apply_linear(projection_, pixels);
  }
  const auto [weight, bias] = collapsed();
  return torch::linear(pixels, weight, bias);
}

void FrameEmbeddingImpl::collapse_from(const FrameEmbeddingImpl& published) {
  const torch::NoGradGuard no_grad;
  const auto [weight, bias] = published.collapsed();
  projection_->weight.copy_(weight);
  projection_->bias.copy_(bias);
}

}  // namespace propagator::nn
