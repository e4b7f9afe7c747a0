#include "propagator/models/spformer.h"

#include <torch/utils.h>

#include <numbers>

#include "propagator/core/random.h"

namespace propagator::models {
namespace {

using autodiff::Jet;
using nn::RelativePosition;

int64_t position_axes(const SpFormerOptions& o, const FieldDomain& domain) {
  const bool all = o.axes == PositionAxes::kAll || domain.time < 0;
  return all ? domain.variables() : domain.variables() - 1;
}

nn::WindowAttentionOptions attention(const SpFormerOptions& o,
                                     const FieldDomain& domain) {
  return {.width = o.width,
          .heads = o.heads,
          .position = o.position,
          .axes = position_axes(o, domain)};
}

int64_t feature_count(const SpFormerOptions& o, const FieldDomain& domain) {
  return o.features == TokenFeatures::kFourier ? 2 * o.fourier
                                               : domain.variables();
}

// How far the points of a batch (…, D) lie apart along each axis: (D). 1 where
// all are at one place, and no distance needs a scale.
torch::Tensor span_of(const torch::Tensor& places) {
  const auto all = places.flatten(0, -2);
  const auto span = all.amax(0) - all.amin(0);
  return torch::where(span > 0, span, torch::ones_like(span));
}

}  // namespace

void SpFormerOptions::describe(config::Schema& s) {
  s.field("width", width, {.help = "numbers of a token", .min = 1});
  s.field("heads", heads, {.help = "heads of the attention", .min = 1});
  s.field("blocks", blocks,
          {.help = "blocks of attention and feed-forward layers", .min = 1});
  s.field("feed_forward", feed_forward,
          {.help = "width of the blocks' hidden layers", .min = 1});
  s.field("hidden", hidden,
          {.help = "width of the head's hidden layers", .min = 1});
  s.field("position", position,
          {.help = "encoding of relative positions in attention"});
  s.field("axes", axes,
          {.help = "axes whose relative positions attention has; space, as in "
                   "the S-Pformer paper, has no effect"});
  s.field("alibi_scale", alibi_scale,
          {.help = "span that ALiBi's distances are relative to: of the "
                   "domain, or of the points of a batch, on which answers "
                   "then depend",
           .later = true});
  s.field("features", features,
          {.help = "features of a token beside its coordinates"});
  s.field("fourier", fourier,
          {.help = "frequencies of the Fourier features", .min = 1});
  s.field("fourier_scale", fourier_scale,
          {.help = "spread of the Fourier frequencies, in periods over the "
                   "domain",
           .min = 0});
  s.field("fourier_time", fourier_time,
          {.help = "spread of the Fourier frequencies along time; 0 takes "
                   "that of the other variables",
           .min = 0});
}

void SpFormerOptions::validate(const FieldDomain& domain) const {
  if (width % heads != 0) {
    throw ConfigError(
        "model.heads",
        fmt::format("expected a divisor of model.width ({})", width));
  }
  // With a periodic variable two tokens of a window keep their distance, but in
  // no direction.
  const bool by_distance =
      position == RelativePosition::kAlibi && axes == PositionAxes::kAll;
  if (domain.time_is_periodic && position != RelativePosition::kNone &&
      !by_distance) {
    throw ConfigError(
        "model.position",
        fmt::format("{} has no derivative by a time that is "
                    "periodic by the answer's form",
                    config::name_of(position)),
        "set model.position=none, or hard_constraints=no to learn that "
        "it is periodic");
  }
  const int64_t pairs = width / heads / 2;
  if (position == RelativePosition::kRope &&
      (width / heads % 2 != 0 || pairs < position_axes(*this, domain))) {
    throw ConfigError(
        "model.position",
        fmt::format("rope rotates pairs of channels, at least one "
                    "for each of {} axes: a head has {} channels",
                    position_axes(*this, domain), width / heads),
        "raise model.width or lower model.heads");
  }
}

std::shared_ptr<FieldNet> SpFormerOptions::make(
    const FieldDomain& domain) const {
  return std::make_shared<SpFormer>(*this, domain);
}

SpFormer::SpFormer(const SpFormerOptions& o, const FieldDomain& domain)
    : options_(o),
      domain_(domain),
      embedding_(register_module(
          "embedding", torch::nn::Linear(domain.variables(), o.width))),
      feature_embedding_(register_module(
          "feature_embedding",
          torch::nn::Linear(feature_count(o, domain), o.width))),
      decoder_(register_module(
          "decoder",
          nn::WaveletStack(attention(o, domain), o.feed_forward, o.blocks))),
      head_(register_module("head",
                            nn::WaveletMlp(std::vector<int64_t>{
                                o.width, o.hidden, o.hidden, domain.fields}))) {
  const auto tensor = [](const std::vector<double>& x) {
    return torch::tensor(x, torch::kFloat64);
  };
  low_ = register_buffer("low", tensor(domain.low));
  span_ = register_buffer("span", tensor(domain.high) - tensor(domain.low));
  if (o.features == TokenFeatures::kFourier) {
    frequencies_ = register_parameter(
        "frequencies", torch::zeros({o.fourier, domain.variables()}),
        /*requires_grad=*/false);
  }
}

void SpFormer::initialise(int64_t seed) {
  FieldNet::initialise(seed);
  if (!frequencies_.defined()) return;
  const torch::NoGradGuard no_grad;
  auto spread = torch::full({domain_.variables()}, options_.fourier_scale,
                            torch::kFloat64);
  if (options_.fourier_time > 0 && domain_.time >= 0) {
    spread[domain_.time] = options_.fourier_time;
  }
  const RandomStream stream(seed, "init/frequencies");
  frequencies_.copy_(stream.normal(frequencies_.sizes()) * spread);
}

Jet SpFormer::forward(const Jet& points) {
  const auto dtype = points.rows().scalar_type();
  const auto place = (points + -low_.to(dtype)) * (1 / span_.to(dtype));
  Jet features = place;
  if (frequencies_.defined()) {
    const auto phase =
        autodiff::linear(place, frequencies_ * (2 * std::numbers::pi));
    features = autodiff::cat({autodiff::cos(phase), autodiff::sin(phase)}, -1);
  }
  const auto tokens = nn::apply_linear(embedding_, points) +
                      nn::apply_linear(feature_embedding_, features);
  nn::WindowPlaces where;
  if (options_.position != RelativePosition::kNone) {
    where.places = place.value();
    if (position_axes(options_, domain_) < domain_.variables()) {
      where.places = torch::cat({where.places.narrow(-1, 0, domain_.time),
                                 where.places.slice(-1, domain_.time + 1)},
                                -1);
    }
    if (options_.position == RelativePosition::kAlibi &&
        options_.alibi_scale == AlibiScale::kBatch) {
      where.places = where.places / span_of(where.places);
    }
  }
  return head_->forward(decoder_->forward(tokens, nullptr, where));
}

}  // namespace propagator::models
