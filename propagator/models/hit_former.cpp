#include "propagator/models/hit_former.h"

#include <fmt/format.h>
#include <torch/types.h>

#include <algorithm>
#include <limits>
#include <numbers>
#include <tuple>
#include <vector>

#include "propagator/core/error.h"
#include "propagator/nn/linear.h"

namespace propagator::models {
namespace {

constexpr double kLeastDeviation = 1e-5;  // of the detector's size

}  // namespace

void HitFormerOptions::describe(config::Schema& s) {
  s.field("unhit", unhit,
          {.help = "sensors that were not hit are tokens as well"});
  s.field("width", width,
          {.help = "numbers of a token", .min = 1, .max = 65536});
  s.field("layers", layers,
          {.help = "layers of the encoder", .min = 1, .max = 1000});
  s.field("heads", heads, {.help = "heads of the attention", .min = 1});
  s.field("feed_forward", feed_forward,
          {.help = "width of the encoder's feed-forward layers",
           .min = 1,
           .max = 1e6});
  s.field("frequencies", frequencies,
          {.help = "octaves of sines and cosines that encode places and times, "
                   "the first with a period of twice the detector",
           .min = 0,
           .max = 16});
}

void HitFormerOptions::validate(const DetectorShape& shape) const {
  if (width % heads != 0) {
    throw ConfigError(
        "model.heads",
        fmt::format("expected a divisor of model.width = {}, got {}", width,
                    heads));
  }
  if (!(shape.size > 0 && shape.light_speed > 0)) {
    throw UsageError(fmt::format(
        "[hit_former] expected a detector with size and light speed above 0, "
        "got {} m and {} m/ns",
        shape.size, shape.light_speed));
  }
}

std::shared_ptr<Locator> HitFormerOptions::make(
    const DetectorShape& shape) const {
  validate(shape);
  return std::make_shared<HitFormer>(*this, shape);
}

HitFormer::HitFormer(const HitFormerOptions& options,
                     const DetectorShape& shape)
    : options_(options),
      shape_(shape),
      time_(nn::linear_without_bias(
          1 + (2 + 2 * options.frequencies) * (shape.event_time_known ? 2 : 1) +
              (shape.charge ? 2 : 0),
          options.width)),
      position_(3 * (2 + 2 * options.frequencies), options.width),
      token_(options.width, options.width),
      encoder_(nn::SetEncoderOptions{.layers = options.layers,
                                     .width = options.width,
                                     .heads = options.heads,
                                     .feed_forward = options.feed_forward,
                                     .dropout = 0,
                                     .norm = nn::NormPlace::kBefore,
                                     .activation = nn::Activation::kGelu}),
      output_(options.width, 9) {
  register_module("time", time_);
  register_module("position", position_);
  register_module("token", token_);
  if (shape.event_time_known) {
    first_hit_ = register_module(
        "first_hit",
        nn::linear_without_bias(2 + 2 * options.frequencies, options.width));
  }
  register_module("encoder", encoder_);
  register_module("output", output_);
  summary_ = register_parameter("summary", torch::zeros({options.width}));
}

torch::Tensor HitFormer::features(const torch::Tensor& x) const {
  const auto powers = torch::stack({x, x.square()}, -1);
  if (options_.frequencies == 0) return powers;
  const auto rates = std::numbers::pi * torch::exp2(torch::arange(
                                            options_.frequencies, x.options()));
  const auto phase = x.unsqueeze(-1) * rates;
  return torch::cat({powers, torch::sin(phase), torch::cos(phase)}, -1);
}

HitFormer::Chosen HitFormer::choose(const Hits& hits,
                                    const torch::Tensor& times) const {
  if (options_.unhit) return {{}, times, hits.hit, hits.charges};
  // One, if only padding, where nothing was hit at all.
  const int64_t most =
      std::max<int64_t>(1, hits.hit.sum(1).max().item<int64_t>());
  const auto order =
      std::get<1>(hits.hit.to(torch::kInt32)
                      .sort(/*stable=*/true, /*dim=*/1, /*descending=*/true));
  const auto index = order.narrow(1, 0, most);
  return {index, times.gather(1, index), hits.hit.gather(1, index),
          shape_.charge ? hits.charges.gather(1, index) : torch::Tensor()};
}

torch::Tensor HitFormer::sensor_tokens(const Hits& hits, const Chosen& chosen,
                                       const torch::Tensor& first) {
  const auto type = summary_.scalar_type();
  const auto hit = chosen.hit.to(type).unsqueeze(2);
  std::vector<torch::Tensor> of_time{hit, hit * features(chosen.times)};
  if (shape_.event_time_known) {
    of_time.push_back(hit * features(chosen.times + first.unsqueeze(1)));
  }
  if (shape_.charge) {
    const auto more = 1 + chosen.charges.to(type).unsqueeze(2);
    of_time.push_back(hit * torch::log(more));
    of_time.push_back(hit * torch::rsqrt(more));
  }
  // The same for all events, and so done once for each sensor.
  const auto place =
      features((hits.positions / shape_.size).to(type)).flatten(1);
  auto of_place = position_(place);  // (S, C)
  if (chosen.index.defined()) {
    of_place = of_place.index_select(0, chosen.index.flatten())
                   .view({chosen.index.size(0), chosen.index.size(1), -1});
  }
  const auto inner = nn::apply_linear(time_, torch::cat(of_time, 2)) + of_place;
  return inner + nn::apply_linear(token_, torch::gelu(inner));
}

Located HitFormer::forward(const Hits& hits) {
  expect_hits(hits, "hit_former", shape_);
  const int64_t batch = hits.times.size(0);
  const auto type = summary_.scalar_type();
  // From the first hit on in the type of the times, which may be the finer.
  const auto never = std::numeric_limits<double>::infinity();
  const auto first_time =
      hits.times.masked_fill(hits.hit.logical_not(), never).amin(1);
  const auto first_hit = first_time.masked_fill(first_time == never, 0);
  const double unit = shape_.light_speed / shape_.size;
  const auto times = ((hits.times - first_hit.unsqueeze(1)) * unit)
                         .masked_fill(hits.hit.logical_not(), 0)
                         .to(type);
  const auto first = (first_hit * unit).to(type);

  const auto chosen = choose(hits, times);
  auto summary = summary_.expand({batch, 1, -1});
  if (shape_.event_time_known) {
    summary =
        summary + nn::apply_linear(first_hit_, features(first)).unsqueeze(1);
  }
  torch::Tensor padding;
  if (chosen.index.defined()) {
    padding = torch::cat({torch::zeros({batch, 1}, hits.hit.options()),
                          chosen.hit.logical_not()},
                         1);
  }
  nn::SetEncoderImpl::Observer observer;
  if (observer_) {
    observer = [&](int64_t layer, const auto& weights) {
      show(layer, weights, chosen, hits.times.size(1));
    };
  }
  const auto tokens =
      torch::cat({summary, sensor_tokens(hits, chosen, first)}, 1);
  const auto encoded =
      encoder_->forward({tokens, padding}, /*wanted=*/1, observer);
  return answer(encoded.squeeze(1));
}

void HitFormer::show(int64_t layer, const torch::Tensor& weights,
                     const Chosen& chosen, int64_t sensors) const {
  const auto seen = weights.slice(2, 1);
  if (!chosen.index.defined()) return observer_(layer, seen);
  const auto all =
      torch::zeros({seen.size(0), seen.size(1), sensors}, seen.options());
  observer_(layer,
            all.scatter(2, chosen.index.unsqueeze(1).expand_as(seen), seen));
}

Located HitFormer::answer(const torch::Tensor& summary) {
  const auto numbers = nn::apply_linear(output_, summary);
  const auto n = numbers.slice(1, 3).unbind(1);
  const auto diagonal =
      torch::softplus(numbers.slice(1, 3, 6)) + kLeastDeviation;
  const auto one = torch::ones_like(n[0]), none = torch::zeros_like(n[0]);
  const auto lower =
      torch::stack({one, none, none, n[3], one, none, n[4], n[5], one}, 1)
          .view({-1, 3, 3});
  return {shape_.size * numbers.slice(1, 0, 3),
          shape_.size * diagonal.unsqueeze(2) * lower};
}

}  // namespace propagator::models
