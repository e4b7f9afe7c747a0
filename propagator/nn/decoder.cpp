#include "propagator/nn/decoder.h"

namespace propagator::nn {

using torch::Tensor;

DecoderLayerImpl::DecoderLayerImpl(const EncoderOptions& options)
    : norm1_(torch::nn::LayerNormOptions({options.width})),
      norm2_(torch::nn::LayerNormOptions({options.width})),
      norm3_(torch::nn::LayerNormOptions({options.width})),
      attention_(AttentionOptions{options.width, options.heads}),
      cross_(AttentionOptions{options.width, options.heads}),
      linear1_(options.width, options.feed_forward),
      linear2_(options.feed_forward, options.width) {
  register_module("norm1", norm1_);
  register_module("attention", attention_);
  register_module("norm2", norm2_);
  register_module("cross", cross_);
  register_module("norm3", norm3_);
  register_module("linear1", linear1_);
  register_module("linear2", linear2_);
}

Tensor DecoderLayerImpl::rest(const Tensor& x, const Memory& memory) {
  const auto read = x + cross_->forward(apply_norm(norm2_, x), memory);
  const auto hidden =
      torch::relu(apply_linear(linear1_, apply_norm(norm3_, read)));
  return read + apply_linear(linear2_, hidden);
}

Tensor DecoderLayerImpl::forward(const Tensor& x, const Memory& memory) {
  return rest(
      x + attention_->forward(apply_norm(norm1_, x), AttentionBias::causal()),
      memory);
}

Tensor DecoderLayerImpl::step(const Tensor& x, KeyValueCache& cache,
                              const Memory& memory) {
  return rest(
      x + attention_->step(apply_norm(norm1_, x), cache, NewTokens::kCausal),
      memory);
}

DecoderImpl::DecoderImpl(const EncoderOptions& options)
    : options_(options), norm_(torch::nn::LayerNormOptions({options.width})) {
  for (int64_t n = 0; n < options.layers; ++n) {
    layers_.push_back(
        register_module("layer" + std::to_string(n), DecoderLayer(options)));
  }
  register_module("norm", norm_);
}

std::vector<Memory> DecoderImpl::read(const Tensor& encoded,
                                      const Tensor& padding) {
  std::vector<Memory> memories;
  for (auto& layer : layers_) memories.push_back(layer->read(encoded, padding));
  return memories;
}

Tensor DecoderImpl::forward(Tensor x, const std::vector<Memory>& memories) {
  for (size_t n = 0; n < layers_.size(); ++n) {
    x = layers_[n]->forward(x, memories[n]);
  }
  return apply_norm(norm_, x);
}

Tensor DecoderImpl::step(Tensor x, std::vector<KeyValueCache>& caches,
                         const std::vector<Memory>& memories) {
  for (size_t n = 0; n < layers_.size(); ++n) {
    x = layers_[n]->step(x, caches[n], memories[n]);
  }
  return apply_norm(norm_, x);
}

}  // namespace propagator::nn
