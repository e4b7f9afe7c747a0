#include "propagator/models/flow_matching.h"

#include <fmt/format.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <numbers>

#include "propagator/autodiff/jet.h"
#include "propagator/nn/linear.h"
#include "propagator/nn/normal_mixture.h"
#include "propagator/nn/wavelet_mlp.h"

namespace propagator::models {

using autodiff::Jet;
using autodiff::JetLayout;
using torch::Tensor;

namespace {

// The network knows t by itself and by cos πkt, k = 1 … 4.
constexpr int64_t kWaves = 4;

Tensor features_of_time(const Tensor& t) {
  const auto k = torch::arange(1, kWaves + 1, t.options());
  return torch::cat({t, torch::cos(std::numbers::pi * k * t)}, 1);
}

}  // namespace

void FlowMatchingOptions::describe(config::Schema& s) {
  s.field("width", width,
          {.help = "width of a hidden layer", .min = 1, .max = 65536});
  s.field("layers", layers, {.help = "hidden layers", .min = 1, .max = 100});
  s.field("steps", steps,
          {.help = "steps of the integral that samples and likelihoods take",
           .min = 1,
           .max = 10000});
}

std::shared_ptr<Density> FlowMatchingOptions::make(
    const DensityShape& shape) const {
  return std::make_shared<FlowMatching>(*this, shape);
}

FlowMatching::FlowMatching(const FlowMatchingOptions& o,
                           const DensityShape& shape)
    : NormalFlow(shape), options_(o) {
  place_ = register_module("place",
                           nn::linear_without_bias(shape.variables, o.width));
  rest_ = register_module("rest",
                          torch::nn::Linear(1 + kWaves + shape.given, o.width));
  for (int64_t n = 1; n < o.layers; ++n) {
    hidden_.push_back(register_module(fmt::format("hidden{}", n),
                                      torch::nn::Linear(o.width, o.width)));
  }
  out_ = register_module("out", torch::nn::Linear(o.width, shape.variables));
}

nn::Mapped FlowMatching::velocity(const Tensor& x, const Tensor& t,
                                  const Tensor& given, bool with_divergence) {
  const int64_t variables = shape().variables;
  const auto layout =
      with_divergence
          ? JetLayout(std::vector<int64_t>(static_cast<size_t>(variables), 1))
          : JetLayout();
  const auto at =
      with_divergence
          ? Jet::moving(x, torch::eye(variables, x.options()), layout)
          : Jet::constant(x);
  const auto rest = torch::cat(
      {features_of_time(t).expand({x.size(0), 1 + kWaves}), given}, 1);
  auto y = autodiff::silu(nn::apply_linear(place_, at) +
                          nn::apply_linear(rest_, rest));
  for (auto& layer : hidden_) {
    y = y + autodiff::silu(nn::apply_linear(layer, y));
  }
  y = nn::apply_linear(out_, y);
  if (!with_divergence) return {y.value(), {}};
  // Row 1 + d is ∂v/∂x_d.
  return {y.value(), y.rows().slice(0, 1).diagonal(0, 0, 2).sum(-1)};
}

nn::Mapped FlowMatching::carry(const Tensor& x, const Tensor& given,
                               double from, double to, bool with_divergence) {
  const double h = (to - from) / static_cast<double>(options_.steps);
  nn::Mapped at{x, torch::zeros({x.size(0)}, x.options())};
  const auto slope = [&](double t, const Tensor& place) {
    return velocity(place, torch::full({1, 1}, t, x.options()), given,
                    with_divergence);
  };
  const auto sum = [](const Tensor& a, const Tensor& b, const Tensor& c,
                      const Tensor& d) { return a + 2 * (b + c) + d; };
  for (int64_t n = 0; n < options_.steps; ++n) {
    const double t = from + static_cast<double>(n) * h;
    const auto a = slope(t, at.value);
    const auto b = slope(t + h / 2, at.value + h / 2 * a.value);
    const auto c = slope(t + h / 2, at.value + h / 2 * b.value);
    const auto d = slope(t + h, at.value + h * c.value);
    at.value = at.value + h / 6 * sum(a.value, b.value, c.value, d.value);
    if (!with_divergence) continue;
    at.log_slope =
        at.log_slope +
        h / 6 * sum(a.log_slope, b.log_slope, c.log_slope, d.log_slope);
  }
  return at;
}

nn::Mapped FlowMatching::to_normal(const Tensor& x, const Tensor& given) {
  return carry(x, given, 1, 0, /*with_divergence=*/true);
}

Tensor FlowMatching::from_normal(const Tensor& u, const Tensor& given) {
  return carry(u, given, 0, 1, /*with_divergence=*/false).value;
}

Tensor FlowMatching::loss(const Tensor& x, const Tensor& given,
                          const Tensor& noise) {
  expect(x, given);
  const auto t = noise.narrow(1, 0, 1);
  const auto start =
      nn::normal_from_uniform(noise.narrow(1, 1, shape().variables));
  const auto way = scaled(x, given) - start;
  const auto answer =
      velocity(start + t * way, t, scaled_given(given), false).value;
  return (answer - way).square().mean(1);
}

}  // namespace propagator::models
