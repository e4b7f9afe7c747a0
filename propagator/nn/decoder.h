#pragma once

#include "propagator/nn/encoder.h"
#include "propagator/nn/memory_attention.h"

namespace propagator::nn {

// One pre-norm layer of the heat-plate paper's decoder, (B, T, C) → (B, T, C):
//   x = x + Attention(LN x), causal
//   x = x + CrossAttention(LN x, memory)
//   x = x + W₂ relu(W₁ LN x + b₁) + b₂
class DecoderLayerImpl : public torch::nn::Module {
 public:
  explicit DecoderLayerImpl(const EncoderOptions& options);

  Memory read(const torch::Tensor& encoded, const torch::Tensor& padding) {
    return cross_->read(encoded, padding);
  }
  torch::Tensor forward(const torch::Tensor& x, const Memory& memory);
  torch::Tensor step(const torch::Tensor& x, KeyValueCache& cache,
                     const Memory& memory);

 private:
  // All that follows self-attention.
  torch::Tensor rest(const torch::Tensor& x, const Memory& memory);

  torch::nn::LayerNorm norm1_, norm2_, norm3_;
  MultiHeadAttention attention_;
  MemoryAttention cross_;
  torch::nn::Linear linear1_, linear2_;
};
TORCH_MODULE(DecoderLayer);

// A stack of layers, each with its own keys and values of the encoded tokens
// (B, S, C), and a final LayerNorm.
class DecoderImpl : public torch::nn::Module {
 public:
  explicit DecoderImpl(const EncoderOptions& options);

  // Of each layer; `padding` (B, S) bool hides tokens, undefined: none.
  std::vector<Memory> read(const torch::Tensor& encoded,
                           const torch::Tensor& padding);
  // All tokens at once, each attending to those up to itself.
  torch::Tensor forward(torch::Tensor x, const std::vector<Memory>& memories);

  std::vector<KeyValueCache> make_caches(
      int64_t batch, int64_t capacity,
      const torch::TensorOptions& options) const {
    return make_key_value_caches(options_, batch, capacity, options);
  }
  // The next tokens, against all that is cached.
  torch::Tensor step(torch::Tensor x, std::vector<KeyValueCache>& caches,
                     const std::vector<Memory>& memories);

 private:
  EncoderOptions options_;
  std::vector<DecoderLayer> layers_;
  torch::nn::LayerNorm norm_;
};
TORCH_MODULE(Decoder);

}  // namespace propagator::nn
