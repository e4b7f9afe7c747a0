#pragma once

#include "propagator/models/sequence.h"
#include "propagator/nn/encoder.h"

namespace propagator::models {

struct DecoderOnlyOptions : SequenceOptions {
  std::shared_ptr<SequenceModel> make(
      const SequenceShape& shape) const override;
};

// One causal stack over source, start and target in a row: the token at place p
// attends to those up to itself and gives the logits of the one at p + 1.
class DecoderOnly : public SequenceModel {
 public:
  DecoderOnly(const StackOptions& options, const SequenceShape& shape);

  torch::Tensor forward(const torch::Tensor& source,
                        const torch::Tensor& target) override;
  std::unique_ptr<Continuation> begin(const torch::Tensor& source) override;
  void observe(nn::MultiHeadAttentionImpl::Observer observer) override;

 private:
  class Going;

  torch::Tensor embedding_;  // (V, C)
  torch::Tensor places_;     // (places, C)
  nn::Encoder encoder_;
  torch::nn::Linear head_;
};

}  // namespace propagator::models
