#pragma once

#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>

#include <vector>

#include "propagator/nn/set_encoder.h"

namespace propagator::nn {

struct QueryDecoderOptions {
  int64_t layers = 1;
  int64_t width = 32;
  int64_t heads = 4;
  int64_t feed_forward = 64;
  double dropout = 0.1;
};

// One layer of a decoder with a single query, norms after the sums:
//   q = LN(q + Dropout(Attention(q; tokens)))
//   q = LN(q + Dropout(W₂ Dropout(relu(W₁ q + b₁)) + b₂)).
// A query attends to all tokens that are no padding, and to no other query:
// there is none, so the attention among queries of a usual decoder would be a
// linear layer. It has as many parameters as a SetEncoderLayer.
class QueryDecoderLayerImpl : public torch::nn::Module {
 public:
  explicit QueryDecoderLayerImpl(const QueryDecoderOptions& options);

  // query (B, C), tokens (B, T, C) → (B, C). An observer is shown the query's
  // weights on the tokens, (B, H, T), as they are without dropout.
  using Observer = SetEncoderLayerImpl::Observer;
  torch::Tensor forward(const torch::Tensor& query, const TokenSet& x,
                        const Observer& observer = {});

 private:
  torch::Tensor attention(const torch::Tensor& query, const TokenSet& x,
                          const Observer& observer);

  QueryDecoderOptions options_;
  torch::nn::Linear qkv_, output_;  // (C → 3 C), (C → C)
  torch::nn::Linear linear1_, linear2_;
  torch::nn::LayerNorm norm1_, norm2_;
  Dropout weight_dropout_, attention_dropout_, hidden_dropout_, output_dropout_;
};
TORCH_MODULE(QueryDecoderLayer);

// A learned query that asks a set of tokens, layer after layer: (B, T, C) →
// (B, C). A set has a token that is no padding.
class QueryDecoderImpl : public torch::nn::Module {
 public:
  explicit QueryDecoderImpl(const QueryDecoderOptions& options);

  using Observer = SetEncoderImpl::Observer;
  torch::Tensor forward(const TokenSet& x, const Observer& observer = {});

 private:
  std::vector<QueryDecoderLayer> layers_;
  torch::Tensor query_;  // (C)
};
TORCH_MODULE(QueryDecoder);

}  // namespace propagator::nn
