#pragma once

#include "propagator/nn/attention.h"

namespace propagator::nn {

// What queries of other tokens attend to: keys and values (B, H, S, D), and
// which of the S are hidden, (B, S) bool; undefined: none.
struct Memory {
  torch::Tensor keys, values, padding;

  // That of the batch's rows, in this order.
  Memory rows(const torch::Tensor& rows) const;
};

// Multi-head cross-attention without biases, of tokens x (B, T, C) to those of
// another sequence, m (B, S, C):
//   softmax(x Wq (m Wk)ᵀ / √D + padding) m Wv Wo,   (B, T, C).
// Keys and values are made once for all queries.
class MemoryAttentionImpl : public torch::nn::Module {
 public:
  explicit MemoryAttentionImpl(const AttentionOptions& options);

  Memory read(const torch::Tensor& tokens, const torch::Tensor& padding);
  torch::Tensor forward(const torch::Tensor& x, const Memory& memory);

  // As MultiHeadAttention has them.
  void set_hard(bool hard) { hard_ = hard; }
  void observe(MultiHeadAttentionImpl::Observer observer) {
    observer_ = std::move(observer);
  }

 private:
  torch::Tensor split(const torch::Tensor& x) const;  // (B, T, C)→(B, H, T, D)

  AttentionOptions options_;
  torch::nn::Linear query_, key_value_, output_;
  MultiHeadAttentionImpl::Observer observer_;
  bool hard_ = false;
};
TORCH_MODULE(MemoryAttention);

// Sets whether the queries of all attention layers in `module` take the value
// of their best key alone.
void set_hard_attention(torch::nn::Module& module, bool hard);

}  // namespace propagator::nn
