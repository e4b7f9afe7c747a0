#include "propagator/models/event_former.h"

#include <fmt/format.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <cmath>
#include <limits>

#include "propagator/core/error.h"
#include "propagator/core/random.h"
#include "propagator/kernels/set/sensor_tokens.h"
#include "propagator/nn/linear.h"

namespace propagator::models {

void EventFormerOptions::describe(config::Schema& s) {
  s.field("positions", positions,
          {.help = "tokens carry the sensor's position too"});
  s.field("time", time,
          {.help = "how a hit time enters a token: by a linear map, by sines "
                   "and cosines of it, or by a small network",
           .later = true});
  s.field("time_base", time_base,
          {.help = "longest over shortest period of the sines of a time, for "
                   "time: sinusoidal; the shortest is 2 pi ns",
           .min = 1,
           .max = 1e9,
           .later = true});
  s.field("time_hidden", time_hidden,
          {.help = "width of the hidden layer, for time: network",
           .min = 1,
           .max = 65536,
           .later = true});
  s.field("summary", summary,
          {.help = "what the place is read from: a summary token, the mean or "
                   "the sum of the encoded hits, the latest of them, or what "
                   "a decoder answers a learned query",
           .later = true});
  s.field("decoder_layers", decoder_layers,
          {.help = "layers of the decoder, for summary: query",
           .min = 1,
           .max = 1000,
           .later = true});
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
  if (time == TimeEncoding::kSinusoidal && width % 2 != 0) {
    throw ConfigError(
        "model.width",
        fmt::format("expected an even number for a sine and a cosine each, "
                    "got {}",
                    width));
  }
}

std::vector<config::UnusedOption> EventFormerOptions::unused_options() const {
  std::vector<config::UnusedOption> unused;
  if (time != TimeEncoding::kSinusoidal) {
    unused.push_back({"model.time_base", "only time: sinusoidal has it"});
  }
  if (time != TimeEncoding::kNetwork) {
    unused.push_back({"model.time_hidden", "only time: network has it"});
  }
  if (summary != EventSummary::kQuery) {
    unused.push_back({"model.decoder_layers", "only summary: query has them"});
  }
  return unused;
}

std::shared_ptr<Locator> EventFormerOptions::make(
    const DetectorShape& shape) const {
  validate(shape);
  return std::make_shared<EventFormer>(*this, shape);
}

EventFormer::EventFormer(const EventFormerOptions& options,
                         const DetectorShape& shape)
    : options_(options),
      shape_(shape),
      embedding_(shape.sensors + (has_token() ? 1 : 0), options.width),
      encoder_(nn::SetEncoderOptions{.layers = options.layers,
                                     .width = options.width,
                                     .heads = options.heads,
                                     .feed_forward = options.feed_forward,
                                     .dropout = options.dropout}),
      output_(options.width, 3) {
  register_module("embedding", embedding_);
  if (options.time == TimeEncoding::kNetwork) {
    time_hidden_ = register_module("time_hidden",
                                   torch::nn::Linear(1, options.time_hidden));
    time_ = register_module(
        "time", torch::nn::Linear(options.time_hidden, options.width));
  } else if (options.time == TimeEncoding::kLinear) {
    time_ = register_module("time", torch::nn::Linear(1, options.width));
  }
  if (options.positions) {
    position_ =
        register_module("position", torch::nn::Linear(3, options.width));
  }
  if (shape.charge) {
    charge_ =
        register_module("charge", nn::linear_without_bias(1, options.width));
  }
  register_module("encoder", encoder_);
  if (options.summary == EventSummary::kQuery) {
    decoder_ =
        register_module("decoder", nn::QueryDecoder(nn::QueryDecoderOptions{
                                       .layers = options.decoder_layers,
                                       .width = options.width,
                                       .heads = options.heads,
                                       .feed_forward = options.feed_forward,
                                       .dropout = options.dropout}));
  }
  register_module("output", output_);
}

torch::Tensor EventFormer::offset(const Hits& hits, torch::ScalarType type) {
  torch::Tensor sum;
  if (options_.time == TimeEncoding::kLinear) sum = time_->bias;
  if (position_.is_empty()) return sum;
  const auto of_place = position_(hits.positions.to(type));
  return sum.defined() ? sum + of_place : of_place;
}

torch::Tensor EventFormer::encode_time(const torch::Tensor& times) {
  const auto t = times.unsqueeze(2);
  switch (options_.time) {
    case TimeEncoding::kLinear:
      return t * time_->weight.squeeze(1);
    case TimeEncoding::kNetwork: {
      const auto unit = t * (shape_.light_speed / shape_.size);
      return nn::apply_linear(
          time_, torch::gelu(nn::apply_linear(time_hidden_, unit)));
    }
    case TimeEncoding::kSinusoidal:
      break;
  }
  const auto rates = torch::pow(
      options_.time_base, torch::arange(options_.width / 2, times.options()) *
                              (-2.0 / static_cast<double>(options_.width)));
  const auto phase = t * rates;
  return torch::stack({torch::sin(phase), torch::cos(phase)}, 3).flatten(2);
}

torch::Tensor EventFormer::tokens(const Hits& hits, torch::ScalarType type) {
  const auto times = hits.times.to(type);
  const auto rest = offset(hits, type);
  const auto& table = embedding_->weight;
  if (has_token() && options_.time == TimeEncoding::kLinear && !shape_.charge) {
    return kernels::sensor_tokens(times, table, time_->weight.squeeze(1), rest);
  }
  auto of_sensor = table.narrow(0, has_token() ? 1 : 0, shape_.sensors);
  if (rest.defined()) of_sensor = of_sensor + rest;
  auto of_hit = of_sensor + encode_time(times);
  if (shape_.charge) {
    of_hit = of_hit + torch::log1p(hits.charges.to(type)).unsqueeze(2) *
                          charge_->weight.squeeze(1);
  }
  if (!has_token()) return of_hit;
  const auto summary =
      table.narrow(0, 0, 1).expand({times.size(0), 1, table.size(1)});
  return torch::cat({summary, of_hit}, 1);
}

torch::Tensor EventFormer::summarise(const Hits& hits,
                                     const nn::TokenSet& encoded) {
  switch (options_.summary) {
    case EventSummary::kSum:
      return encoded.tokens.sum(1);
    case EventSummary::kMean:
      return encoded.tokens.sum(1) / hits.hit.sum(1, /*keepdim=*/true)
                                         .clamp_min(1)
                                         .to(encoded.tokens.scalar_type());
    case EventSummary::kLast: {
      const auto never = -std::numeric_limits<double>::infinity();
      const auto latest =
          hits.times.masked_fill(hits.hit.logical_not(), never).argmax(1);
      return encoded.tokens
          .gather(1, latest.view({-1, 1, 1}).expand({-1, 1, options_.width}))
          .squeeze(1);
    }
    default:
      return decoder_->forward(encoded, observer_);
  }
}

Located EventFormer::forward(const Hits& hits) {
  expect_hits(hits, "event_former", shape_);
  if (hits.times.size(1) != shape_.sensors) {
    throw UsageError(
        fmt::format("[event_former] expected hits of {} sensors, got {}",
                    shape_.sensors, hits.times.size(1)));
  }
  const int64_t batch = hits.times.size(0);
  const auto all = tokens(hits, output_->weight.scalar_type());
  if (!has_token()) {
    // An event without a hit has tokens to attend to all the same.
    const auto some = hits.hit.any(1, /*keepdim=*/true);
    const auto padding = hits.hit.logical_not().logical_and(some);
    auto encoded = encoder_->forward({all, padding}, nn::SetEncoderImpl::kReal);
    if (options_.summary != EventSummary::kQuery) {
      encoded = encoded.masked_fill(some.logical_not().unsqueeze(2), 0);
    }
    return {nn::apply_linear(output_, summarise(hits, {encoded, padding})), {}};
  }
  const auto seen = torch::zeros({batch, 1}, hits.hit.options());
  const auto padding = torch::cat({seen, hits.hit.logical_not()}, 1);
  nn::SetEncoderImpl::Observer observer;
  if (observer_) {
    observer = [this](int64_t layer, const auto& weights) {
      observer_(layer, weights.slice(2, 1));
    };
  }
  const auto encoded =
      encoder_->forward({all, padding}, /*wanted=*/1, observer);
  return {nn::apply_linear(output_, encoded.squeeze(1)), {}};
}

namespace {

// Queries to values uniform on Xavier's bound, biases of attention zero.
void initialise_attention(torch::nn::Module& module, const std::string& name,
                          int64_t seed) {
  for (auto& item : module.named_parameters()) {
    auto& value = item.value();
    if (item.key().ends_with("qkv.weight")) {
      const double bound =
          std::sqrt(6.0 / static_cast<double>(value.size(0) + value.size(1)));
      value.copy_(
          RandomStream(seed, "init/" + name + "." + item.key())
              .uniform(value.sizes(), -bound, bound, value.scalar_type()));
    } else if (item.key().ends_with("qkv.bias") ||
               item.key().ends_with("output.bias")) {
      value.zero_();
    }
  }
}

}  // namespace

void EventFormer::initialise(int64_t seed) {
  Locator::initialise(seed);
  const torch::NoGradGuard no_grad;
  initialise_attention(*encoder_, "encoder", seed);
  const auto draw_normal = [&](torch::Tensor value, const char* name) {
    value.copy_(RandomStream(seed, name).normal(value.sizes()));
  };
  draw_normal(embedding_->weight, "init/embedding.weight");
  if (decoder_.is_empty()) return;
  initialise_attention(*decoder_, "decoder", seed);
  draw_normal(decoder_->named_parameters()["query"], "init/decoder.query");
}

}  // namespace propagator::models
