#include "propagator/models/decoder_only.h"

#include <torch/types.h>
#include <torch/utils.h>

#include "propagator/nn/linear.h"
#include "propagator/nn/positional_encoding.h"

namespace propagator::models {

using data::kPad;
using data::kStart;
using torch::Tensor;

std::shared_ptr<SequenceModel> DecoderOnlyOptions::make(
    const SequenceShape& shape) const {
  return std::make_shared<DecoderOnly>(stack, shape);
}

DecoderOnly::DecoderOnly(const StackOptions& o, const SequenceShape& shape)
    : SequenceModel(shape),
      embedding_(register_parameter("embedding",
                                    torch::zeros({shape.tokens, o.width}))),
      places_(register_buffer(
          "places", nn::interleaved_encoding(shape.source + 1 + shape.target,
                                             o.width, torch::kFloat32))),
      encoder_(register_module(
          "decoder",
          nn::Encoder(nn::EncoderOptions{.layers = o.layers,
                                         .width = o.width,
                                         .heads = o.heads,
                                         .feed_forward = o.feed_forward}))),
      head_(register_module("head", torch::nn::Linear(o.width, shape.tokens))) {
}

Tensor DecoderOnly::forward(const Tensor& source, const Tensor& target) {
  expect(source, target);
  const int64_t batch = source.size(0), given = source.size(1),
                count = target.size(1);
  // Source, start and target follow one another without a gap: what pads a
  // source comes behind the target. The last token is never an input.
  const auto start = torch::full({batch, 1}, kStart, source.options());
  const auto all = torch::cat({source, start, target}, 1);
  const auto lengths = (source != kPad).sum(1, /*keepdim=*/true);  // (B, 1)
  const auto place =
      torch::arange(given + count, source.options()).unsqueeze(0);
  const auto from =
      torch::where(place < lengths, place, place + (given - lengths))
          .clamp_max(given + count);
  const auto x =
      encoder_->forward(embedded(all.gather(1, from), embedding_, places_, 0),
                        nn::AttentionBias::causal());
  // The token before target t is at place length + t.
  const auto before =
      lengths + torch::arange(count, source.options()).unsqueeze(0);
  const auto rows =
      x.gather(1, before.unsqueeze(-1).expand({batch, count, x.size(2)}));
  return nn::apply_linear(head_, rows);
}

class DecoderOnly::Going : public Continuation {
 public:
  Going(DecoderOnly& model, const Tensor& source)
      : model_(model),
        caches_(model.encoder_->make_caches(
            source.size(0), source.size(1) + 1 + model.shape().target,
            model.embedding_.detach().options())) {
    if (source.size(1) > 0) hidden(source);
  }

  Tensor step(const Tensor& tokens) override {
    const torch::NoGradGuard no_grad;
    const auto last = hidden(tokens).narrow(1, tokens.size(1) - 1, 1);
    return nn::apply_linear(model_.head_, last).squeeze(1);
  }
  void select(const Tensor& rows) override { select_rows(caches_, rows); }

 private:
  Tensor hidden(const Tensor& tokens) {
    const torch::NoGradGuard no_grad;
    const auto x =
        embedded(tokens, model_.embedding_, model_.places_, caches_[0].length);
    return model_.encoder_->step(x, caches_, nn::NewTokens::kCausal);
  }

  DecoderOnly& model_;
  std::vector<nn::KeyValueCache> caches_;
};

std::unique_ptr<Continuation> DecoderOnly::begin(const Tensor& source) {
  expect_whole(source);
  return std::make_unique<Going>(*this, source);
}

void DecoderOnly::observe(nn::MultiHeadAttentionImpl::Observer observer) {
  for (const auto& module : modules()) {
    if (auto* layer = dynamic_cast<nn::MultiHeadAttentionImpl*>(module.get())) {
      layer->observe(observer);
    }
  }
}

}  // namespace propagator::models
