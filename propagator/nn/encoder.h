#pragma once

#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/normalization.h>

#include <optional>
#include <vector>

#include "propagator/kernels/encoder/causal_stack.h"
#include "propagator/nn/adapter.h"
#include "propagator/nn/attention.h"
#include "propagator/nn/linear.h"
#include "propagator/nn/tuned_part.h"

namespace propagator::nn {

struct EncoderOptions {
  int64_t layers = 12;
  int64_t width = 512;
  int64_t heads = 16;
  int64_t feed_forward = 256;
};

// One pre-norm layer, (B, T, C) → (B, T, C):
//   x = x + Attention(LN x)
//   x = x + W₂ relu(W₁ LN x + b₁) + b₂
// and an adapter behind it, if a fine-tuning has added one.
class EncoderLayerImpl : public torch::nn::Module, public TakesAdapter {
 public:
  explicit EncoderLayerImpl(const EncoderOptions& options);

  // Only the work the bias leaves, fused on a GPU; or all of it.
  torch::Tensor forward(const torch::Tensor& x, const AttentionBias& bias,
                        AttentionWork work = AttentionWork::kVisible);
  torch::Tensor step(const torch::Tensor& x, KeyValueCache& cache,
                     NewTokens among = NewTokens::kSeeAll) {
    return adapted(feed_forward(
        x + attention_->step(apply_norm(norm1_, x), cache, among)));
  }
  void add_adapter(int64_t width) override;

  // Its weights, as kernels::causal_stack takes them, if they are all there is
  // to it: nobody observes it and nothing was added.
  std::optional<std::vector<torch::Tensor>> plain_weights() const;

 private:
  torch::Tensor feed_forward(const torch::Tensor& x);
  torch::Tensor adapted(const torch::Tensor& x) {
    return adapter_.is_empty() ? x : adapter_->forward(x);
  }

  torch::nn::LayerNorm norm1_, norm2_;
  MultiHeadAttention attention_;
  torch::nn::Linear linear1_, linear2_;
  Adapter adapter_{nullptr};
};
TORCH_MODULE(EncoderLayer);

// Empty caches for `batch` sequences of up to `capacity` tokens.
std::vector<KeyValueCache> make_key_value_caches(
    const EncoderOptions& options, int64_t batch, int64_t capacity,
    const torch::TensorOptions& tensor_options);

// A stack of layers and a final LayerNorm.
class EncoderImpl : public torch::nn::Module {
 public:
  explicit EncoderImpl(const EncoderOptions& options);

  torch::Tensor forward(torch::Tensor x, const AttentionBias& bias,
                        AttentionWork work = AttentionWork::kVisible);

  // Causally, of sequences that may have the same first token: on the CPU that
  // token goes through the layers once.
  kernels::StackTokens forward_causal(const kernels::StackTokens& tokens);

  std::vector<KeyValueCache> make_caches(
      int64_t batch, int64_t capacity,
      const torch::TensorOptions& options) const {
    return make_key_value_caches(options_, batch, capacity, options);
  }
  // The next tokens of a causal sequence, each seeing all that is cached and
  // the others of this call, or those up to itself: first the prefix at once,
  // then one at a time.
  torch::Tensor step(torch::Tensor x, std::vector<KeyValueCache>& caches,
                     NewTokens among = NewTokens::kSeeAll);

 private:
  EncoderOptions options_;
  std::vector<EncoderLayer> layers_;
  torch::nn::LayerNorm norm_;
};
TORCH_MODULE(Encoder);

}  // namespace propagator::nn
