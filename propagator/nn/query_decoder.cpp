#include "propagator/nn/query_decoder.h"

#include <fmt/format.h>

#include "propagator/core/error.h"
#include "propagator/nn/attention_bias.h"
#include "propagator/nn/linear.h"

namespace propagator::nn {

QueryDecoderLayerImpl::QueryDecoderLayerImpl(const QueryDecoderOptions& options)
    : options_(options),
      qkv_(options.width, 3 * options.width),
      output_(options.width, options.width),
      linear1_(options.width, options.feed_forward),
      linear2_(options.feed_forward, options.width),
      norm1_(torch::nn::LayerNormOptions({options.width})),
      norm2_(torch::nn::LayerNormOptions({options.width})),
      weight_dropout_(options.dropout),
      attention_dropout_(options.dropout),
      hidden_dropout_(options.dropout),
      output_dropout_(options.dropout) {
  if (options.heads < 1 || options.width % options.heads != 0) {
    throw UsageError(
        fmt::format("[query_decoder] expected a number of heads that divides "
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

torch::Tensor QueryDecoderLayerImpl::attention(const torch::Tensor& query,
                                               const TokenSet& x,
                                               const Observer& observer) {
  const int64_t batch = x.tokens.size(0), width = options_.width;
  const auto part = [&](const torch::Tensor& of, int64_t from, int64_t count) {
    return torch::linear(of,
                         qkv_->weight.narrow(0, from * width, count * width),
                         qkv_->bias.narrow(0, from * width, count * width));
  };
  const auto q = part(query, 0, 1).view({batch, options_.heads, 1, -1});
  const auto kv = part(x.tokens, 1, 2)
                      .view({batch, x.tokens.size(1), 2, options_.heads, -1});
  const auto k = kv.select(2, 0).transpose(1, 2);  // (B, H, T, D)
  const auto v = kv.select(2, 1).transpose(1, 2);
  const auto bias = AttentionBias::padded(x.padding);
  if (observer) observer(attention_weights(q, k, bias).squeeze(2));
  const auto factors = weight_dropout_->factors(
      {batch, options_.heads, 1, x.tokens.size(1)}, q.options());
  const auto mixed = attention_reference(q, k, v, bias, factors).flatten(1);
  return attention_dropout_(apply_linear(output_, mixed));
}

torch::Tensor QueryDecoderLayerImpl::forward(const torch::Tensor& query,
                                             const TokenSet& x,
                                             const Observer& observer) {
  const auto y = apply_norm(norm1_, query + attention(query, x, observer));
  const auto hidden = hidden_dropout_(torch::relu(apply_linear(linear1_, y)));
  return apply_norm(norm2_,
                    y + output_dropout_(apply_linear(linear2_, hidden)));
}

QueryDecoderImpl::QueryDecoderImpl(const QueryDecoderOptions& options) {
  for (int64_t n = 0; n < options.layers; ++n) {
    layers_.push_back(
        register_module(fmt::format("layer{}", n), QueryDecoderLayer(options)));
  }
  query_ = register_parameter("query", torch::zeros({options.width}));
}

torch::Tensor QueryDecoderImpl::forward(const TokenSet& x,
                                        const Observer& observer) {
  auto query = query_.expand({x.tokens.size(0), -1});
  for (size_t n = 0; n < layers_.size(); ++n) {
    QueryDecoderLayerImpl::Observer of_layer;
    if (observer) {
      of_layer = [&](const auto& weights) {
        observer(static_cast<int64_t>(n), weights);
      };
    }
    query = layers_[n]->forward(query, x, of_layer);
  }
  return query;
}

}  // namespace propagator::nn
