#pragma once

#include "propagator/models/sequence.h"
#include "propagator/nn/decoder.h"

namespace propagator::models {

struct EncoderDecoderOptions : SequenceOptions {
  std::shared_ptr<SequenceModel> make(
      const SequenceShape& shape) const override;
};

// The transformer of the heat-plate paper's figures 1 to 10: an encoder reads
// the source and its end, each token attending to all; a decoder reads start
// and target, each token attending to those up to itself and to the encoded
// ones, and gives the logits of the next.
class EncoderDecoder : public SequenceModel {
 public:
  EncoderDecoder(const StackOptions& options, const SequenceShape& shape);

  torch::Tensor forward(const torch::Tensor& source,
                        const torch::Tensor& target) override;
  std::unique_ptr<Continuation> begin(const torch::Tensor& source) override;
  // The decoder's attention to the encoded source.
  void observe(nn::MultiHeadAttentionImpl::Observer observer) override;

 private:
  class Going;

  // Keys and values of the source, for each layer of the decoder.
  std::vector<nn::Memory> read(const torch::Tensor& source);

  torch::Tensor source_embedding_, target_embedding_;  // (V, C)
  torch::Tensor places_;                               // (places, C)
  nn::Encoder encoder_;
  nn::Decoder decoder_;
  torch::nn::Linear head_;
};

}  // namespace propagator::models
