#pragma once

#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>

#include <functional>
#include <vector>

#include "propagator/nn/adapter.h"
#include "propagator/nn/dropout.h"
#include "propagator/nn/fused_set_layer.h"
#include "propagator/nn/learned_prefix.h"
#include "propagator/nn/tuned_part.h"

namespace propagator::nn {

enum class NormPlace { kAfter, kBefore };
enum class Activation { kRelu, kGelu };

struct SetEncoderOptions {
  int64_t layers = 2;
  int64_t width = 32;
  int64_t heads = 4;
  int64_t feed_forward = 64;
  double dropout = 0.1;
  NormPlace norm = NormPlace::kAfter;
  Activation activation = Activation::kRelu;
};

// Tokens of a set, (B, T, C), and which of them are only there to fill the
// batch, (B, T) bool, or undefined: nothing depends on those. The first token
// is never padding, if it is the one that is asked for.
struct TokenSet {
  torch::Tensor tokens;
  torch::Tensor padding = {};
};

// One layer of an encoder, with the norms after the sums, as in the detector
// lecture,
//   x = LN(x + Dropout(Attention(x)))
//   x = LN(x + Dropout(W₂ Dropout(act(W₁ x + b₁)) + b₂)),
// or before them,
//   x = x + Dropout(Attention(LN x)), and so on.
// Attention has biases in all its projections and dropout on its weights. With
// width C and hidden width F the layer has 4 C² + 2 C F + 9 C + F parameters. A
// fine-tuning may add an adapter behind it and a learned prefix.
class SetEncoderLayerImpl : public torch::nn::Module,
                            public TakesAdapter,
                            public TakesPrefix {
 public:
  explicit SetEncoderLayerImpl(const SetEncoderOptions& options);

  // (B, T, C) → (B, wanted, C), of the first tokens; it attends to all. An
  // observer is shown the first token's weights on all tokens, (B, H, T), as
  // they are without dropout.
  using Observer = std::function<void(const torch::Tensor& weights)>;
  torch::Tensor forward(const TokenSet& x, int64_t wanted,
                        const Observer& observer = {});

  // The same of packed sets by the fused layer (fused_set_layer.h), (R, C) →
  // (R, C), or (B, C), of first tokens: with the same draws of the dropouts.
  torch::Tensor forward_packed(const torch::Tensor& x,
                               const kernels::PackedSets& sets, bool first);
  bool packing_pays(const TokenSet& x) const;

  void add_adapter(int64_t width) override;
  void add_prefix(int64_t tokens) override;

 private:
  SetLayerWeights weights() const;
  torch::Tensor adapted(const torch::Tensor& x) {
    return adapter_.is_empty() ? x : adapter_->forward(x);
  }
  torch::Tensor attention(const TokenSet& x, int64_t wanted,
                          const Observer& observer);
  torch::Tensor feed_forward(const torch::Tensor& x);

  SetEncoderOptions options_;
  torch::nn::Linear qkv_, output_;  // (C → 3 C), (C → C)
  torch::nn::Linear linear1_, linear2_;
  torch::nn::LayerNorm norm1_, norm2_;
  Dropout weight_dropout_, attention_dropout_, hidden_dropout_, output_dropout_;
  Adapter adapter_{nullptr};
  LearnedPrefix prefix_{nullptr};
};
TORCH_MODULE(SetEncoderLayer);

// A stack of layers and, with the norms before, one more LayerNorm.
class SetEncoderImpl : public torch::nn::Module {
 public:
  explicit SetEncoderImpl(const SetEncoderOptions& options);

  // The last layer answers for the first `wanted` tokens alone; kAll: for all;
  // kReal: for all, with zeros in place of padding, which the first token may
  // be then too as long as another of its set is none. An observer is shown the
  // weights of every layer. Where no answer for padding is asked for, small
  // steps of training leave it out.
  static constexpr int64_t kAll = -1, kReal = -2;
  using Observer =
      std::function<void(int64_t layer, const torch::Tensor& weights)>;
  torch::Tensor forward(const TokenSet& x, int64_t wanted = kAll,
                        const Observer& observer = {});

  // Whether they do so for these.
  bool packing_pays(const TokenSet& x, int64_t wanted) const;

 private:
  torch::Tensor forward_packed(const TokenSet& x, int64_t wanted);

  std::vector<SetEncoderLayer> layers_;
  torch::nn::LayerNorm norm_{nullptr};
};
TORCH_MODULE(SetEncoder);

}  // namespace propagator::nn
