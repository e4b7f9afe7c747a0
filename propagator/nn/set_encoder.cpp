#include "propagator/nn/set_encoder.h"

#include <fmt/format.h>

#include <algorithm>

#include "propagator/core/error.h"
#include "propagator/kernels/set/set_attention.h"
#include "propagator/nn/attention_kernel.h"
#include "propagator/nn/linear.h"

namespace propagator::nn {
SetEncoderLayerImpl::SetEncoderLayerImpl(const SetEncoderOptions& options)
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
  const auto bias = AttentionBias::padded(x.padding);
  const auto parts =
      qkv.view({qkv.size(0), qkv.size(1), 3, options_.heads, -1});
  const auto part = [&](int64_t n) {  // (B, H, T, D)
    return parts.select(2, n).transpose(1, 2);
  };
  if (observer) {
    observer(
        attention_weights(part(0).narrow(2, 0, 1), part(1), bias).squeeze(2));
  }
  const auto factors = weight_dropout_->factors(
      {x.tokens.size(0), options_.heads, wanted, x.tokens.size(1)},
      qkv.options());
  const auto kernel = choose_attention_kernel(
      bias,
      {.form = AttentionCase::Form::kSet, .x = qkv, .heads = options_.heads});
  const auto queries = part(0).narrow(2, 0, wanted);
  auto mixed =
      kernel == AttentionKernel::kSet
          ? kernels::set_attention(qkv,
                                   {options_.heads, wanted, x.padding, factors})
          : attention_reference(queries, part(1), part(2), bias, factors)
                .transpose(1, 2)
                .flatten(2);
  if (!prefix_.is_empty()) {
    mixed = mixed + prefix_->forward(queries).transpose(1, 2).flatten(2);
  }
  return attention_dropout_(apply_linear(output_, mixed));
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
    return adapted(apply_norm(norm2_, y + feed_forward(y)));
  }
  const auto y = own + attention({apply_norm(norm1_, x.tokens), x.padding},
                                 wanted, observer);
  return adapted(y + feed_forward(apply_norm(norm2_, y)));
}

void SetEncoderLayerImpl::add_adapter(int64_t width) {
  adapter_ = register_module(kAdapterName, Adapter(options_.width, width));
}

void SetEncoderLayerImpl::add_prefix(int64_t tokens) {
  prefix_ = register_module(
      kPrefixName, LearnedPrefix(options_.width, options_.heads, tokens));
}

SetLayerWeights SetEncoderLayerImpl::weights() const {
  return {qkv_->weight,     qkv_->bias,     output_->weight,  output_->bias,
          linear1_->weight, linear1_->bias, linear2_->weight, linear2_->bias,
          norm1_->weight,   norm1_->bias,   norm2_->weight,   norm2_->bias};
}

bool SetEncoderLayerImpl::packing_pays(const TokenSet& x) const {
  if (!prefix_.is_empty() || options_.norm != NormPlace::kAfter ||
      options_.activation != Activation::kRelu) {
    return false;
  }
  const auto all = weights();
  return choose_attention_kernel(AttentionBias::padded(x.padding),
                                 {.form = AttentionCase::Form::kSetLayer,
                                  .x = x.tokens,
                                  .heads = options_.heads,
                                  .weights = &all}) ==
         AttentionKernel::kPackedSets;
}

torch::Tensor SetEncoderLayerImpl::forward_packed(
    const torch::Tensor& x, const kernels::PackedSets& sets, bool first) {
  const auto type = x.scalar_type();
  const auto rows = first ? torch::arange(sets.sets) : sets.place;
  SetLayerFactors factors;
  factors.weights = weight_dropout_->factors(
      {sets.sets, options_.heads, first ? 1 : sets.tokens, sets.tokens},
      x.options());
  factors.attention =
      attention_dropout_->factors_of_rows(rows, options_.width, type);
  factors.hidden =
      hidden_dropout_->factors_of_rows(rows, options_.feed_forward, type);
  factors.output = output_dropout_->factors_of_rows(rows, options_.width, type);
  return adapted(
      fused_set_layer(x, sets, weights(), factors,
                      {options_.heads, first, norm1_->options.eps()}));
}

SetEncoderImpl::SetEncoderImpl(const SetEncoderOptions& options) {
  for (int64_t n = 0; n < options.layers; ++n) {
    layers_.push_back(
        register_module(fmt::format("layer{}", n), SetEncoderLayer(options)));
  }
  if (options.norm == NormPlace::kBefore) {
    norm_ = register_module(
        "norm",
        torch::nn::LayerNorm(torch::nn::LayerNormOptions({options.width})));
  }
}

torch::Tensor SetEncoderImpl::forward(const TokenSet& x, int64_t wanted,
                                      const Observer& observer) {
  if (!observer && packing_pays(x, wanted)) return forward_packed(x, wanted);
  auto tokens = x.tokens;
  const auto count = static_cast<int64_t>(layers_.size());
  for (int64_t n = 0; n < count; ++n) {
    const bool all = wanted < 0 || n + 1 < count;
    SetEncoderLayerImpl::Observer of_layer;
    if (observer) of_layer = [&](const auto& weights) { observer(n, weights); };
    tokens = layers_[n]->forward({tokens, x.padding},
                                 all ? tokens.size(1) : wanted, of_layer);
  }
  if (!norm_.is_empty()) tokens = apply_norm(norm_, tokens);
  return wanted == kReal && x.padding.defined()
             ? tokens.masked_fill(x.padding.unsqueeze(2), 0)
             : tokens;
}

bool SetEncoderImpl::packing_pays(const TokenSet& x, int64_t wanted) const {
  const bool all = wanted < 0 || wanted == x.tokens.size(1);
  const bool no_padding = wanted == kReal || (all && !x.padding.defined());
  return (wanted == 1 || no_padding) && !layers_.empty() &&
         std::all_of(layers_.begin(), layers_.end(),
                     [&](const auto& layer) { return layer->packing_pays(x); });
}

torch::Tensor SetEncoderImpl::forward_packed(const TokenSet& x,
                                             int64_t wanted) {
  const int64_t sets = x.tokens.size(0), width = x.tokens.size(2);
  const auto packed = kernels::pack_sets(
      x.padding.defined()
          ? x.padding
          : torch::zeros({sets, x.tokens.size(1)}, torch::kBool));
  auto rows = x.tokens.reshape({-1, width}).index_select(0, packed.place);
  for (auto& layer : layers_) {
    const bool first = wanted == 1 && &layer == &layers_.back();
    rows = layer->forward_packed(rows, packed, first);
  }
  if (wanted != kReal) return rows.view({sets, -1, width});
  return torch::zeros({sets * x.tokens.size(1), width}, rows.options())
      .index_copy(0, packed.place, rows)
      .view({sets, -1, width});
}

}  // namespace propagator::nn
