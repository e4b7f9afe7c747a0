#pragma once

#include <torch/nn/module.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/pimpl.h>

#include <array>
#include <functional>

namespace propagator::nn {

// Which tokens a token may look at: all of the first `prefix` and, in a causal
// mask, the earlier ones, with or without itself.
//   block:  query i sees j < prefix
//   causal: query i sees j < prefix, and j < i (or j ≤ i with sees_itself)
struct PrefixMask {
  enum class Kind { kBlock, kCausal };
  Kind kind = Kind::kBlock;
  int64_t prefix = 5;
  bool sees_itself = false;

  // The mask as (T, T) of 0 and -∞, to be added to the scores.
  torch::Tensor additive(int64_t tokens,
                         const torch::TensorOptions& options) const;
};

// The keys and values of the tokens so far, for one layer.
struct KeyValueCache {
  torch::Tensor keys;    // (B, H, capacity, D)
  torch::Tensor values;  // (B, H, capacity, D)
  int64_t length = 0;
};

struct AttentionOptions {
  int64_t width = 512;
  int64_t heads = 16;
};

// Multi-head attention without biases,
//   softmax(x Wq (x Wk)ᵀ / √D + mask) x Wv Wo,   (B, T, C) → (B, T, C),
// in three forms that give the same numbers:
//   forward(x, mask)  any additive mask, all of the T × T work: the reference;
//   forward(x, PrefixMask)  only the work the mask leaves;
//   step(x, cache)    new tokens against everything cached before them.
class MultiHeadAttentionImpl : public torch::nn::Module {
 public:
  explicit MultiHeadAttentionImpl(const AttentionOptions& options);

  torch::Tensor forward(const torch::Tensor& x, const torch::Tensor& mask);
  torch::Tensor forward(const torch::Tensor& x, const PrefixMask& mask);
  torch::Tensor step(const torch::Tensor& x, KeyValueCache& cache);

  // Query, key and value projections one below the other (3 C, C), and that of
  // the output (C, C).
  const torch::Tensor& qkv_weight() const { return qkv_->weight; }
  const torch::Tensor& output_weight() const { return output_->weight; }
  int64_t heads() const { return options_.heads; }

  // The softmax itself, computed plainly and only to be looked at: (B, H, T,
  // K), where a block mask leaves K = prefix keys and a causal one all T.
  torch::Tensor weights(const torch::Tensor& x, const PrefixMask& mask);
  // Shows the weights of every forward under a PrefixMask to `observer`; an
  // empty one ends it.
  using Observer =
      std::function<void(const torch::Tensor& weights, const PrefixMask& mask)>;
  void observe(Observer observer) { observer_ = std::move(observer); }
  bool observed() const { return static_cast<bool>(observer_); }

 private:
  torch::Tensor block(const torch::Tensor& x, int64_t prefix);
  torch::Tensor block_absorbed(const torch::Tensor& x, int64_t prefix);
  // Queries, keys and values of x, each (B, H, T, D).
  std::array<torch::Tensor, 3> project(const torch::Tensor& x);
  torch::Tensor split(const torch::Tensor& x) const;  // (B, T, C)→(B, H, T, D)
  torch::Tensor merge(const torch::Tensor& x) const;  // and back

  // The projection's weights for query, key and value: (C, C) each.
  torch::Tensor query() const { return part(0); }
  torch::Tensor key() const { return part(1); }
  torch::Tensor value() const { return part(2); }
  torch::Tensor part(int64_t n) const {
    return qkv_->weight.narrow(0, n * options_.width, options_.width);
  }

  AttentionOptions options_;
  torch::nn::Linear qkv_, output_;  // (C → 3 C), (C → C)
  Observer observer_;
};
TORCH_MODULE(MultiHeadAttention);

}  // namespace propagator::nn
