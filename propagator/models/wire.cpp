#include "propagator/models/wire.h"

#include <fmt/format.h>
#include <torch/types.h>

#include <algorithm>

#include "propagator/core/error.h"
#include "propagator/nn/init.h"
#include "propagator/nn/linear.h"

namespace propagator::models {
namespace {

// The largest |h| of a layer is exp(w0² / 4 s0²); beyond this power float32
// has no room for its second derivatives.
constexpr double kMaxPower = 60;

}  // namespace

void WireOptions::describe(config::Schema& s) {
  s.field("width", width,
          {.help = "complex features of a hidden layer", .min = 1});
  s.field("layers", layers, {.help = "hidden layers", .min = 1});
  s.field("first_w0", first_w0,
          {.help = "frequency of the first layer, over axes on [-1, 1]",
           .min = 1e-3,
           .max = 1e4});
  s.field("hidden_w0", hidden_w0,
          {.help = "frequency of the layers after the first",
           .min = 1e-3,
           .max = 1e4});
  s.field("scale", scale,
          {.help = "s0 of the wavelets' envelope exp(-|s0 z|^2)",
           .min = 1e-3,
           .max = 1e4});
}

void WireOptions::validate(const FieldDomain&) const {
  const double ratio = hidden_w0 / (2 * scale);
  if (layers == 1 || ratio * ratio <= kMaxPower) return;
  throw ConfigError(
      "model.scale",
      fmt::format("wavelets of frequency {} with an envelope of scale {} come "
                  "to exp({:.0f})",
                  hidden_w0, scale, ratio * ratio),
      "choose a larger model.scale or a smaller model.hidden_w0");
}

std::shared_ptr<FieldNet> WireOptions::make(const FieldDomain& domain) const {
  return std::make_shared<Wire>(*this, domain);
}

Wire::Wire(const WireOptions& options, const FieldDomain& domain)
    : out_real_(register_module(
          "out_real", torch::nn::Linear(options.width, domain.fields))),
      out_imaginary_(register_module(
          "out_imaginary",
          nn::linear_without_bias(options.width, domain.fields))),
      axes_(*this, domain) {
  for (int64_t n = 0; n < options.layers; ++n) {
    const bool first = n == 0;
    layers_.push_back(
        register_module(fmt::format("layer{}", n),
                        nn::GaborLayer(nn::GaborLayerOptions{
                            .in = first ? domain.variables() : options.width,
                            .out = options.width,
                            .w0 = first ? options.first_w0 : options.hidden_w0,
                            .scale = options.scale,
                            .first = first})));
  }
}

autodiff::Jet Wire::forward(const autodiff::Jet& points) {
  auto x = axes_(points);
  for (auto& layer : layers_) x = layer->forward(x);
  return autodiff::linear(
      x, torch::cat({out_real_->weight, -out_imaginary_->weight}, 1),
      out_real_->bias);
}

void Wire::initialise(int64_t seed) { nn::initialise(*this, seed); }

}  // namespace propagator::models
