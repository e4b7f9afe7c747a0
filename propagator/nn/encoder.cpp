#include "propagator/nn/encoder.h"

#include "propagator/nn/fused_layer.h"
#include "propagator/nn/linear.h"

namespace propagator::nn {
EncoderLayerImpl::EncoderLayerImpl(const EncoderOptions& options)
    : norm1_(torch::nn::LayerNormOptions({options.width})),
      norm2_(torch::nn::LayerNormOptions({options.width})),
      attention_(AttentionOptions{options.width, options.heads}),
      linear1_(options.width, options.feed_forward),
      linear2_(options.feed_forward, options.width) {
  register_module("norm1", norm1_);
  register_module("attention", attention_);
  register_module("norm2", norm2_);
  register_module("linear1", linear1_);
  register_module("linear2", linear2_);
}

torch::Tensor EncoderLayerImpl::forward(const torch::Tensor& x,
                                        const AttentionBias& bias,
                                        AttentionWork work) {
  const int64_t heads = attention_->heads();
  const auto kernel =
      choose_attention_kernel(bias, {.form = AttentionCase::Form::kLayer,
                                     .x = x,
                                     .heads = heads,
                                     .work = work});
  if (attention_->observed() || attention_->has_prefix() ||
      attention_->hard() || kernel != AttentionKernel::kFusedLayer) {
    return adapted(
        feed_forward(x + attention_->forward(norm1_(x), bias, work)));
  }
  const LayerWeights weights{
      norm1_->weight,           norm1_->bias,
      attention_->qkv_weight(), attention_->output_weight(),
      norm2_->weight,           norm2_->bias,
      linear1_->weight,         linear1_->bias,
      linear2_->weight,         linear2_->bias};
  return adapted(fused_layer(x, weights, heads, bias, norm1_->options.eps()));
}

void EncoderLayerImpl::add_adapter(int64_t width) {
  adapter_ =
      register_module(kAdapterName, Adapter(linear1_->weight.size(1), width));
}

std::optional<std::vector<torch::Tensor>> EncoderLayerImpl::plain_weights()
    const {
  if (attention_->observed() || attention_->has_prefix() ||
      attention_->hard() || !adapter_.is_empty()) {
    return std::nullopt;
  }
  return std::vector{norm1_->weight,           norm1_->bias,
                     attention_->qkv_weight(), attention_->output_weight(),
                     norm2_->weight,           norm2_->bias,
                     linear1_->weight,         linear1_->bias,
                     linear2_->weight,         linear2_->bias};
}

torch::Tensor EncoderLayerImpl::feed_forward(const torch::Tensor& x) {
  const auto hidden =
      torch::relu(apply_linear(linear1_, apply_norm(norm2_, x)));
  return x + apply_linear(linear2_, hidden);
}

EncoderImpl::EncoderImpl(const EncoderOptions& options)
    : options_(options), norm_(torch::nn::LayerNormOptions({options.width})) {
  for (int64_t n = 0; n < options.layers; ++n) {
    layers_.push_back(
        register_module("layer" + std::to_string(n), EncoderLayer(options)));
  }
  register_module("norm", norm_);
}

torch::Tensor EncoderImpl::forward(torch::Tensor x, const AttentionBias& bias,
                                   AttentionWork work) {
  for (auto& layer : layers_) x = layer->forward(x, bias, work);
  return apply_norm(norm_, x);
}

kernels::StackTokens EncoderImpl::forward_causal(
    const kernels::StackTokens& tokens) {
  kernels::StackWeights weights{
      {}, norm_->weight, norm_->bias, options_.heads, norm_->options.eps()};
  bool plain = true;
  for (const auto& layer : layers_) {
    const auto own = layer->plain_weights();
    plain = plain && own;
    if (plain) {
      weights.layers.insert(weights.layers.end(), own->begin(), own->end());
    }
  }
  if (plain && kernels::has_causal_stack(tokens, weights)) {
    return kernels::causal_stack(tokens, weights);
  }
  if (tokens.first.size(0) == 0) {
    return {tokens.first, forward(tokens.rest, AttentionBias::causal())};
  }
  const auto first =
      tokens.first.unsqueeze(0).expand({tokens.rest.size(0), -1, -1});
  const auto all =
      forward(torch::cat({first, tokens.rest}, 1), AttentionBias::causal());
  return {all.select(1, 0).narrow(0, 0, 1),
          all.narrow(1, 1, tokens.rest.size(1))};
}

std::vector<KeyValueCache> make_key_value_caches(
    const EncoderOptions& options, int64_t batch, int64_t capacity,
    const torch::TensorOptions& tensor_options) {
  std::vector<KeyValueCache> caches(static_cast<size_t>(options.layers));
  const int64_t depth = options.width / options.heads;
  for (auto& cache : caches) {
    cache.keys =
        torch::empty({batch, options.heads, capacity, depth}, tensor_options);
    cache.values = torch::empty_like(cache.keys);
  }
  return caches;
}

torch::Tensor EncoderImpl::step(torch::Tensor x,
                                std::vector<KeyValueCache>& caches,
                                NewTokens among) {
  for (size_t n = 0; n < layers_.size(); ++n) {
    x = layers_[n]->step(x, caches[n], among);
  }
  return apply_norm(norm_, x);
}

}  // namespace propagator::nn
