#include "propagator/models/kan.h"

#include <torch/types.h>
#include <torch/utils.h>

#include <cmath>
#include <sstream>

#include "propagator/core/error.h"
#include "propagator/core/random.h"
#include "propagator/nn/spline.h"

namespace propagator::models {
namespace {

using autodiff::Jet;
using torch::Tensor;

constexpr double kCoefficientBound = 0.1;

}  // namespace

void KanOptions::describe(config::Schema& s) {
  s.field("widths", widths, {.help = "widths of the hidden layers, as 5,5"});
  s.field("grid", grid,
          {.help = "intervals of the splines", .min = 1, .max = 10000});
  s.field("degree", degree,
          {.help = "degree of the splines, which have one continuous "
                   "derivative less",
           .min = 1,
           .max = 20});
  s.field("grid_low", grid_low, {.help = "where the splines' grid begins"});
  s.field("grid_high", grid_high, {.help = "where the splines' grid ends"});
  s.field("scale_inputs", scale_inputs,
          {.help = "scale inputs from the domain to the grid; otherwise they "
                   "are taken as they are"});
}

std::vector<int64_t> KanOptions::hidden() const {
  std::vector<int64_t> numbers;
  std::istringstream list(widths);
  for (std::string text; std::getline(list, text, ',');) {
    try {
      const config::Meta bounds{.help = "", .min = 1, .max = 65536};
      config::parse(text, bounds, numbers.emplace_back());
    } catch (const std::invalid_argument& error) {
      throw ConfigError(
          "model.widths",
          fmt::format("{} between commas, got '{}'", error.what(), widths));
    }
  }
  return numbers;
}

void KanOptions::validate(const FieldDomain& domain) const {
  hidden();
  if (!(grid_low < grid_high)) {
    throw ConfigError("model.grid_high",
                      fmt::format("expected more than model.grid_low = {}, "
                                  "got {}",
                                  grid_low, grid_high));
  }
  for (size_t v = 0; scale_inputs && v < domain.low.size(); ++v) {
    if (domain.low[v] < domain.high[v]) continue;
    throw ConfigError(
        "model.scale_inputs",
        fmt::format("expected variable {} on an interval, got [{}, {}]", v,
                    domain.low[v], domain.high[v]));
  }
}

std::shared_ptr<FieldNet> KanOptions::make(const FieldDomain& domain) const {
  return std::make_shared<Kan>(*this, domain);
}

KanLayerImpl::KanLayerImpl(int64_t in, int64_t out, const KanOptions& options)
    : degree_(options.degree) {
  coefficients_ = register_parameter(
      "coefficients", torch::zeros({out, in, options.grid + options.degree}));
  const auto knots =
      nn::uniform_knots(options.grid, options.degree, options.grid_low,
                        options.grid_high, torch::kFloat32);
  knots_ =
      register_parameter("knots", knots.repeat({out, in, 1}), /*grad=*/false);
  scale_base_ = register_parameter("scale_base", torch::ones({out, in}));
  scale_spline_ = register_parameter("scale_spline", torch::ones({out, in}));
  bias_ = register_parameter("bias", torch::zeros({out}));
}

Jet KanLayerImpl::forward(const Jet& x) {
  // All edges into a node as one row of a matrix over [splines, silu].
  const auto splines =
      nn::spline_basis(x, knots_[0], degree_).linear([](const Tensor& rows) {
        return rows.flatten(-2);
      });
  const auto weight = torch::cat(
      {(coefficients_ * scale_spline_.unsqueeze(-1)).flatten(1), scale_base_},
      1);
  return autodiff::linear(autodiff::cat({splines, autodiff::silu(x)}, -1),
                          weight, bias_);
}

Kan::Kan(const KanOptions& options, const FieldDomain& domain) {
  auto widths = options.hidden();
  widths.insert(widths.begin(), domain.variables());
  widths.push_back(domain.fields);
  for (size_t n = 1; n < widths.size(); ++n) {
    layers_.push_back(
        register_module(fmt::format("layer{}", n),
                        KanLayer(widths[n - 1], widths[n], options)));
  }
  if (!options.scale_inputs) return;
  const auto low = torch::tensor(domain.low, torch::kFloat64);
  const auto high = torch::tensor(domain.high, torch::kFloat64);
  const auto scale = (options.grid_high - options.grid_low) / (high - low);
  scale_ = register_buffer("input_scale", scale.to(torch::kFloat32));
  shift_ = register_buffer(
      "input_shift", (options.grid_low - scale * low).to(torch::kFloat32));
}

Jet Kan::forward(const Jet& points) {
  auto x = scale_.defined() ? points * scale_ + shift_ : points;
  for (auto& layer : layers_) x = layer->forward(x);
  return x;
}

void Kan::initialise(int64_t seed) {
  const torch::NoGradGuard no_grad;
  for (auto& item : named_parameters()) {
    auto& value = item.value();
    const auto& path = item.key();
    const auto draw = [&](double bound) {
      value.copy_(
          RandomStream(seed, "init/" + path)
              .uniform(value.sizes(), -bound, bound, value.scalar_type()));
    };
    if (path.ends_with(".coefficients")) {
      draw(kCoefficientBound);
    } else if (path.ends_with(".scale_base")) {
      draw(std::sqrt(3.0 / static_cast<double>(value.size(1))));
    } else if (path.ends_with(".scale_spline")) {
      value.fill_(1.0);
    } else if (path.ends_with(".bias")) {
      value.fill_(0.0);
    }
  }
}

}  // namespace propagator::models
