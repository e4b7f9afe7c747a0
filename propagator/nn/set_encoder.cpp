#include "propagator/nn/set_encoder.h"

#include <fmt/format.h>

#include "propagator/core/error.h"
#include "propagator/kernels/set_attention.h"
#include "propagator/nn/linear.h"

namespace propagator::nn {
namespace {

torch::nn::LayerNorm make_norm(int64_t width) {
  return torch::nn::LayerNorm(torch::nn::LayerNormOptions({width}));
}

}  // namespace

SetEncoderLayerImpl::SetEncoderLayerImpl(const SetEncoderOptions& options)
    : options_(options),
      qkv_(options.width, 3 * options.width),
      output_(options.width, options.width),
      linear1_(options.width, options.feed_forward),
      linear2_(options.feed_forward, options.width),
      norm1_(make_norm(options.width)),
      norm2_(make_norm(options.width)),
      weight_dropout_(options.dropout),
      attention_dropout_(options.dropout),
      hidden_dropout_(options.dropout),
      output_dropout_(options.dropout) {
  if (options.heads < 1 || options.width % options.heads != 0) {
    throw UsageError(
        fmt::format("[set_encoder] expected a number of heads that divides "
                    "the width {}, got {}",
                    options.width, options.heads));
  }
  register_module("qkv", qkv_);
  register_module("output", output_);
  register_module("linear1", linear1_);
  register_module("linear2", linear2_);
  register_module("norm1", norm1_);
  register_module("norm2", norm2_);
  if (options.dropout == 0) return;  // no state to keep
  register_module("weight_dropout", weight_dropout_);
  register_module("attention_dropout", attention_dropout_);
  register_module("hidden_dropout", hidden_dropout_);
  register_module("output_dropout", output_dropout_);
}

torch::Tensor SetEncoderLayerImpl::attention(const TokenSet& x, int64_t wanted,
                                             const Observer& observer) {
  const auto qkv = apply_linear(qkv_, x.tokens);
  kernels::SetAttentionOptions options{options_.heads, wanted, x.padding, {}};
  if (observer) {
    auto first = options;
    first.wanted = 1;
    observer(kernels::set_attention_weights(qkv, first).squeeze(2));
  }
  options.factors = weight_dropout_->factors(
      {x.tokens.size(0), options_.heads, wanted, x.tokens.size(1)},
      qkv.options());
  return attention_dropout_(
      apply_linear(output_, kernels::set_attention(qkv, options)));
}

torch::Tensor SetEncoderLayerImpl::feed_forward(const torch::Tensor& x) {
  const auto inner = apply_linear(linear1_, x);
  const auto hidden = options_.activation == Activation::kRelu
                          ? torch::relu(inner)
                          : torch::gelu(inner);
  return output_dropout_(apply_linear(linear2_, hidden_dropout_(hidden)));
}

torch::Tensor SetEncoderLayerImpl::forward(const TokenSet& x, int64_t wanted,
                                           const Observer& observer) {
  const auto own = x.tokens.narrow(1, 0, wanted);
  if (options_.norm == NormPlace::kAfter) {
    const auto y = apply_norm(norm1_, own + attention(x, wanted, observer));
    return apply_norm(norm2_, y + feed_forward(y));
  }
  const auto y = own + attention({apply_norm(norm1_, x.tokens), x.padding},
                                 wanted, observer);
  return y + feed_forward(apply_norm(norm2_, y));
}

SetEncoderImpl::SetEncoderImpl(const SetEncoderOptions& options) {
  for (int64_t n = 0; n < options.layers; ++n) {
    layers_.push_back(
        register_module(fmt::format("layer{}", n), SetEncoderLayer(options)));
  }
  if (options.norm == NormPlace::kBefore) {
    norm_ = register_module("norm", make_norm(options.width));
  }
}

torch::Tensor SetEncoderImpl::forward(const TokenSet& x, int64_t wanted,
                                      const Observer& observer) {
  auto tokens = x.tokens;
  const auto count = static_cast<int64_t>(layers_.size());
  for (int64_t n = 0; n < count; ++n) {
    const bool all = wanted < 0 || n + 1 < count;
    SetEncoderLayerImpl::Observer of_layer;
    if (observer) of_layer = [&](const auto& weights) { observer(n, weights); };
    tokens = layers_[n]->forward({tokens, x.padding},
                                 all ? tokens.size(1) : wanted, of_layer);
  }
  return norm_.is_empty() ? tokens : apply_norm(norm_, tokens);
}

}  // namespace propagator::nn
