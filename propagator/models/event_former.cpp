#include "propagator/models/event_former.h"

#include <fmt/format.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <cmath>

#include "propagator/core/error.h"
#include "propagator/core/random.h"
#include "propagator/kernels/set/sensor_tokens.h"
#include "propagator/nn/linear.h"

namespace propagator::models {

void EventFormerOptions::describe(config::Schema& s) {
  s.field("positions", positions,
          {.help = "tokens carry the sensor's position too"});
  s.field("width", width,
          {.help = "numbers of a token", .min = 1, .max = 65536});
  s.field("layers", layers,
          {.help = "layers of the encoder", .min = 1, .max = 1000});
  s.field("heads", heads, {.help = "heads of the attention", .min = 1});
  s.field("feed_forward", feed_forward,
          {.help = "width of the encoder's feed-forward layers",
           .min = 1,
           .max = 1e6});
  s.field("dropout", dropout,
          {.help = "share of the numbers that training leaves out at random",
           .min = 0,
           .max = 0.99});
}

void EventFormerOptions::validate(const DetectorShape&) const {
  if (width % heads != 0) {
    throw ConfigError(
        "model.heads",
        fmt::format("expected a divisor of model.width = {}, got {}", width,
                    heads));
  }
}

std::shared_ptr<Locator> EventFormerOptions::make(
    const DetectorShape& shape) const {
  validate(shape);
  return std::make_shared<EventFormer>(*this, shape);
}

EventFormer::EventFormer(const EventFormerOptions& options,
                         const DetectorShape& shape)
    : sensors_(shape.sensors),
      embedding_(shape.sensors + 1, options.width),
      time_(1, options.width),
      encoder_(nn::SetEncoderOptions{.layers = options.layers,
                                     .width = options.width,
                                     .heads = options.heads,
                                     .feed_forward = options.feed_forward,
                                     .dropout = options.dropout}),
      output_(options.width, 3) {
  register_module("embedding", embedding_);
  register_module("time", time_);
  if (options.positions) {
    position_ =
        register_module("position", torch::nn::Linear(3, options.width));
  }
  register_module("encoder", encoder_);
  register_module("output", output_);
}

Located EventFormer::forward(const Hits& hits) {
  expect_hits(hits, "event_former");
  if (hits.times.size(1) != sensors_) {
    throw UsageError(
        fmt::format("[event_former] expected hits of {} sensors, got {}",
                    sensors_, hits.times.size(1)));
  }
  const int64_t batch = hits.times.size(0);
  const auto type = output_->weight.scalar_type();
  auto offset = time_->bias;
  if (!position_.is_empty()) {
    offset = offset + position_(hits.positions.to(type));
  }
  const auto tokens =
      kernels::sensor_tokens(hits.times.to(type), embedding_->weight,
                             time_->weight.squeeze(1), offset);
  const auto seen = torch::zeros({batch, 1}, hits.hit.options());
  const auto padding = torch::cat({seen, hits.hit.logical_not()}, 1);
  nn::SetEncoderImpl::Observer observer;
  if (observer_) {
    observer = [this](int64_t layer, const auto& weights) {
      observer_(layer, weights.slice(2, 1));
    };
  }
  const auto encoded =
      encoder_->forward({tokens, padding}, /*wanted=*/1, observer);
  return {nn::apply_linear(output_, encoded.squeeze(1)), {}};
}

void EventFormer::initialise(int64_t seed) {
  Locator::initialise(seed);
  const torch::NoGradGuard no_grad;
  for (auto& item : encoder_->named_parameters()) {
    auto& value = item.value();
    const auto& name = item.key();
    if (name.ends_with("qkv.weight")) {
      const double bound =
          std::sqrt(6.0 / static_cast<double>(value.size(0) + value.size(1)));
      value.copy_(
          RandomStream(seed, "init/encoder." + name)
              .uniform(value.sizes(), -bound, bound, value.scalar_type()));
    } else if (name.ends_with("qkv.bias") || name.ends_with("output.bias")) {
      value.zero_();
    }
  }
  auto& table = embedding_->weight;
  table.copy_(
      RandomStream(seed, "init/embedding.weight").normal(table.sizes()));
}

}  // namespace propagator::models
