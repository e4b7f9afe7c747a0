#include "propagator/models/pinnsformer.h"

namespace propagator::models {

void PinnsFormerOptions::describe(config::Schema& s) {
  s.field("width", width, {.help = "numbers of a token", .min = 1});
  s.field("heads", heads, {.help = "heads of the attention", .min = 1});
  s.field(
      "blocks", blocks,
      {.help = "blocks of the encoder, and as many of the decoder", .min = 1});
  s.field("feed_forward", feed_forward,
          {.help = "width of the blocks' hidden layers", .min = 1});
  s.field("hidden", hidden,
          {.help = "width of the head's hidden layers", .min = 1});
}

void PinnsFormerOptions::validate(const FieldDomain&) const {
  if (width % heads != 0) {
    throw ConfigError(
        "model.heads",
        fmt::format("expected a divisor of model.width ({})", width));
  }
}

std::shared_ptr<FieldNet> PinnsFormerOptions::make(
    const FieldDomain& domain) const {
  return std::make_shared<PinnsFormer>(*this, domain);
}

PinnsFormer::PinnsFormer(const PinnsFormerOptions& o, const FieldDomain& domain)
    : embedding_(register_module(
          "embedding", torch::nn::Linear(domain.variables(), o.width))),
      encoder_(register_module(
          "encoder",
          nn::WaveletStack(
              nn::WindowAttentionOptions{.width = o.width, .heads = o.heads},
              o.feed_forward, o.blocks))),
      decoder_(register_module(
          "decoder",
          nn::WaveletStack(
              nn::WindowAttentionOptions{.width = o.width, .heads = o.heads},
              o.feed_forward, o.blocks))),
      head_(register_module(
          "head", nn::WaveletMlp(std::vector<int64_t>{
                      o.width, o.hidden, o.hidden, domain.fields}))) {}

autodiff::Jet PinnsFormer::forward(const autodiff::Jet& points) {
  const auto tokens = nn::apply_linear(embedding_, points);
  const auto encoded = encoder_->forward(tokens, nullptr, {});
  return head_->forward(decoder_->forward(tokens, &encoded, {}));
}

}  // namespace propagator::models
