#include "propagator/models/encoder_decoder.h"

#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>

#include "propagator/nn/linear.h"
#include "propagator/nn/positional_encoding.h"

namespace propagator::models {

using data::kEnd;
using data::kPad;
using data::kStart;
using torch::Tensor;

namespace {

nn::EncoderOptions stack_of(const StackOptions& o) {
  return {.layers = o.layers,
          .width = o.width,
          .heads = o.heads,
          .feed_forward = o.feed_forward};
}

}  // namespace

std::shared_ptr<SequenceModel> EncoderDecoderOptions::make(
    const SequenceShape& shape) const {
  return std::make_shared<EncoderDecoder>(stack, shape);
}

EncoderDecoder::EncoderDecoder(const StackOptions& o,
                               const SequenceShape& shape)
    : SequenceModel(shape),
      source_embedding_(register_parameter(
          "source_embedding", torch::zeros({shape.tokens, o.width}))),
      target_embedding_(register_parameter(
          "target_embedding", torch::zeros({shape.tokens, o.width}))),
      places_(register_buffer(
          "places",
          nn::interleaved_encoding(std::max(shape.source, shape.target) + 1,
                                   o.width, torch::kFloat32))),
      encoder_(register_module("encoder", nn::Encoder(stack_of(o)))),
      decoder_(register_module("decoder", nn::Decoder(stack_of(o)))),
      head_(register_module("head", torch::nn::Linear(o.width, shape.tokens))) {
}

std::vector<nn::Memory> EncoderDecoder::read(const Tensor& source) {
  // Its end stands right behind each source, before what pads it.
  const auto behind = torch::full({source.size(0), 1}, kPad, source.options());
  const auto open = torch::cat({source, behind}, 1);
  const auto lengths = (source != kPad).sum(1, /*keepdim=*/true);
  const auto tokens = open.scatter(1, lengths, torch::full_like(lengths, kEnd));
  Tensor padding;
  if (source.size(1) > 0) padding = tokens == kPad;
  const auto encoded =
      encoder_->forward(embedded(tokens, source_embedding_, places_, 0),
                        nn::AttentionBias::padded(padding));
  return decoder_->read(encoded, padding);
}

Tensor EncoderDecoder::forward(const Tensor& source, const Tensor& target) {
  expect(source, target);
  const auto start = torch::full({target.size(0), 1}, kStart, target.options());
  const auto before =
      torch::cat({start, target.narrow(1, 0, target.size(1) - 1)}, 1);
  const auto x = decoder_->forward(
      embedded(before, target_embedding_, places_, 0), read(source));
  return nn::apply_linear(head_, x);
}

class EncoderDecoder::Going : public Continuation {
 public:
  Going(EncoderDecoder& model, const Tensor& source)
      : model_(model),
        caches_(model.decoder_->make_caches(
            source.size(0), 1 + model.shape().target,
            model.target_embedding_.detach().options())) {
    const torch::NoGradGuard no_grad;
    memories_ = model.read(source);
    // No source is shorter than others: nothing is hidden.
    for (auto& memory : memories_) memory.padding = Tensor();
  }

  Tensor step(const Tensor& tokens) override {
    const torch::NoGradGuard no_grad;
    const auto x = embedded(tokens, model_.target_embedding_, model_.places_,
                            caches_[0].length);
    const auto last = model_.decoder_->step(x, caches_, memories_)
                          .narrow(1, tokens.size(1) - 1, 1);
    return nn::apply_linear(model_.head_, last).squeeze(1);
  }
  void select(const Tensor& rows) override {
    select_rows(caches_, rows);
    for (auto& memory : memories_) memory = memory.rows(rows);
  }

 private:
  EncoderDecoder& model_;
  std::vector<nn::KeyValueCache> caches_;
  std::vector<nn::Memory> memories_;
};

std::unique_ptr<Continuation> EncoderDecoder::begin(const Tensor& source) {
  expect_whole(source);
  return std::make_unique<Going>(*this, source);
}

void EncoderDecoder::observe(nn::MultiHeadAttentionImpl::Observer observer) {
  for (const auto& module : decoder_->modules()) {
    if (auto* layer = dynamic_cast<nn::MemoryAttentionImpl*>(module.get())) {
      layer->observe(observer);
    }
  }
}

}  // namespace propagator::models
