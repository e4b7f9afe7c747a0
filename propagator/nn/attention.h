#pragma once

#include <torch/nn/module.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/pimpl.h>

#include <array>
#include <functional>

#include "propagator/nn/attention_kernel.h"
#include "propagator/nn/learned_prefix.h"
#include "propagator/nn/tuned_part.h"

namespace propagator::nn {

// The keys and values of the tokens so far, for one layer.
struct KeyValueCache {
  torch::Tensor keys;    // (B, H, capacity, D)
  torch::Tensor values;  // (B, H, capacity, D)
  int64_t length = 0;
};

// What new tokens of one step attend to beside all that is cached: all of one
// another, or each only those up to itself.
enum class NewTokens { kSeeAll, kCausal };

struct AttentionOptions {
  int64_t width = 512;
  int64_t heads = 16;
};

// Multi-head attention without biases,
//   softmax(x Wq (x Wk)ᵀ / √D + bias) x Wv Wo,   (B, T, C) → (B, T, C),
// in forms that give the same numbers:
//   forward(x, bias)  only the work the bias leaves, where a kernel knows it,
//     or all of the T × T work: the reference;
//   step(x, cache)    new tokens against everything cached before them.
// A fine-tuning may add learned keys and values (learned_prefix.h).
class MultiHeadAttentionImpl : public torch::nn::Module, public TakesPrefix {
 public:
  explicit MultiHeadAttentionImpl(const AttentionOptions& options);

  torch::Tensor forward(const torch::Tensor& x, const AttentionBias& bias,
                        AttentionWork work = AttentionWork::kVisible);
  torch::Tensor step(const torch::Tensor& x, KeyValueCache& cache,
                     NewTokens among = NewTokens::kSeeAll);

  // Whether a query takes the value of its best key alone, for inference.
  void set_hard(bool hard) { hard_ = hard; }
  bool hard() const { return hard_; }

  // Query, key and value projections one below the other (3 C, C), and that of
  // the output (C, C).
  const torch::Tensor& qkv_weight() const { return qkv_->weight; }
  const torch::Tensor& output_weight() const { return output_->weight; }
  int64_t heads() const { return options_.heads; }

  void add_prefix(int64_t tokens) override;
  bool has_prefix() const { return !prefix_.is_empty(); }

  // The softmax itself, computed plainly and only to be observed: (B, H, T,
  // K), where a visible prefix leaves K = prefix keys and other biases all T.
  torch::Tensor weights(const torch::Tensor& x, const AttentionBias& bias);
  // Shows the weights of every forward to `observer`; an empty one ends it.
  using Observer = std::function<void(const torch::Tensor& weights,
                                      const AttentionBias& bias)>;
  void observe(Observer observer) { observer_ = std::move(observer); }
  bool observed() const { return static_cast<bool>(observer_); }

 private:
  // What heads have mixed (B, H, T, D), with what queries find in the learned
  // prefix: (B, T, C).
  torch::Tensor gather(const torch::Tensor& mixed, const torch::Tensor& q);
  torch::Tensor prefix_attention(const torch::Tensor& x, int64_t prefix);
  torch::Tensor folded_attention(const torch::Tensor& x, int64_t prefix);
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
  LearnedPrefix prefix_{nullptr};
  Observer observer_;
  bool hard_ = false;
};
TORCH_MODULE(MultiHeadAttention);

}  // namespace propagator::nn
