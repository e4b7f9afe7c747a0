#include "propagator/models/autoregressive_flow.h"

#include <fmt/format.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <numeric>

#include "propagator/kernels/affine_flow.h"

namespace propagator::models {

using torch::Tensor;

namespace {

// Scales of an affine map between exp(-5) and exp(5).
constexpr double kMostLogScale = 5;

}  // namespace

void AutoregressiveFlowOptions::describe(config::Schema& s) {
  s.field("map", map, {.help = "how a variable is taken by those before it"});
  s.field("flows", flows,
          {.help = "maps, one after the other", .min = 1, .max = 1000});
  s.field("width", width,
          {.help = "width of the hidden layers of a map's network",
           .min = 1,
           .max = 65536});
  s.field("layers", layers,
          {.help = "hidden layers of a map's network", .min = 1, .max = 100});
  s.field("bins", spline.bins,
          {.help = "pieces of a spline", .min = 2, .max = 500});
  s.field("reach", spline.reach,
          {.help = "splines bend numbers to this size, in units of the data's "
                   "spread, and leave the others",
           .min = 0.1,
           .max = 1000});
}

std::shared_ptr<Density> AutoregressiveFlowOptions::make(
    const DensityShape& shape) const {
  return std::make_shared<AutoregressiveFlow>(*this, shape);
}

AutoregressiveFlow::AutoregressiveFlow(const AutoregressiveFlowOptions& o,
                                       const DensityShape& shape)
    : NormalFlow(shape), options_(o) {
  std::vector<int64_t> order(static_cast<size_t>(shape.variables));
  std::iota(order.begin(), order.end(), 0);
  for (int64_t n = 0; n < o.flows; ++n) {
    const auto zeros = [&](const char* name) {
      return register_parameter(fmt::format("map{}_{}", n, name),
                                torch::zeros({shape.variables}));
    };
    maps_.push_back({zeros("shift"), zeros("log_scale"),
                     register_module(fmt::format("map{}", n),
                                     nn::MaskedMlp(nn::MaskedMlpOptions{
                                         .variables = shape.variables,
                                         .given = shape.given,
                                         .outputs = o.map == FlowMap::kAffine
                                                        ? 2
                                                        : o.spline.parameters(),
                                         .width = o.width,
                                         .layers = o.layers,
                                         .order = order}))});
    std::ranges::reverse(order);
  }
}

void AutoregressiveFlow::initialise(int64_t seed) {
  Density::initialise(seed);
  const torch::NoGradGuard no_grad;
  for (auto& map : maps_) {
    map.shift.zero_();
    map.log_scale.zero_();
    map.net->reset_outputs();
  }
}

nn::Mapped AutoregressiveFlow::to_normal(const Tensor& x, const Tensor& given) {
  if (options_.map == FlowMap::kAffine) {
    std::vector<kernels::FlowMapWeights> maps;
    for (const auto& map : maps_) {
      maps.push_back({map.shift, map.log_scale, map.net->layers()});
    }
    const auto normal = kernels::affine_flow(x, given, maps, kMostLogScale);
    return {normal.value, normal.log_slope};
  }
  auto value = x;
  std::vector<Tensor> slopes, scales;  // logarithms, added up at the end
  for (auto& map : maps_) {
    const auto at = (value - map.shift) * torch::exp(map.log_scale);
    const auto next =
        nn::rational_spline(at, map.net->forward(at, given), options_.spline);
    value = next.value;
    slopes.push_back(next.log_slope);
    scales.push_back(map.log_scale);
  }
  return {value, torch::cat(slopes, 1).sum(1) + torch::cat(scales).sum()};
}

Tensor AutoregressiveFlow::back(const Tensor& u,
                                const Tensor& parameters) const {
  if (options_.map == FlowMap::kSpline) {
    return nn::inverse_rational_spline(u, parameters, options_.spline).value;
  }
  const auto log_slope =
      torch::tanh(parameters.select(-1, 1) * (1 / kMostLogScale)) *
      -kMostLogScale;
  return parameters.select(-1, 0) + u * torch::exp(-log_slope);
}

Tensor AutoregressiveFlow::from_normal(const Tensor& u, const Tensor& given) {
  auto x = u;
  for (auto map = maps_.rbegin(); map != maps_.rend(); ++map) {
    auto at = torch::zeros_like(x);
    for (const int64_t d : map->net->order()) {
      const auto parameters = map->net->forward(at, given);
      at.select(1, d).copy_(
          back(x.narrow(1, d, 1), parameters.narrow(1, d, 1)).squeeze(1));
    }
    x = at * torch::exp(-map->log_scale) + map->shift;
  }
  return x;
}

}  // namespace propagator::models
