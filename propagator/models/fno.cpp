#include "propagator/models/fno.h"

#include <fmt/ranges.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "propagator/core/error.h"
#include "propagator/core/random.h"
#include "propagator/nn/init.h"

namespace propagator::models {
namespace {

using autodiff::Jet;
using torch::Tensor;

constexpr const char* kGridReadings = "grid_readings";
constexpr int64_t kMinNodes = 4;  // of one cell
constexpr int64_t kMaxNodes = 1 << 24;
constexpr int64_t kHiddenPerWidth = 4;

// One number, or one for each axis.
std::vector<int64_t> numbers_along(const std::string& key,
                                   const std::vector<std::string>& texts,
                                   int64_t axes, double min) {
  std::vector<int64_t> numbers;
  for (const auto& text : texts) {
    try {
      config::parse(text, {.help = "", .min = min, .max = 65536},
                    numbers.emplace_back());
    } catch (const std::invalid_argument& error) {
      throw ConfigError(key, fmt::format("{}, got '{}'", error.what(), text));
    }
  }
  if (numbers.size() == 1)
    numbers.resize(static_cast<size_t>(axes), numbers[0]);
  if (std::ssize(numbers) == axes) return numbers;
  throw ConfigError(
      key, fmt::format("expected one number, or one for each of the {} "
                       "variables, got {}",
                       axes, texts.size()));
}

}  // namespace

void FnoOptions::describe(config::Schema& s) {
  s.field("grid", grid,
          {.help = "nodes along an axis, two of them outside of the domain; "
                   "one number, or one for each variable",
           .memory = true});
  s.field("modes", modes,
          {.help = "lowest frequencies along an axis that layers see; one "
                   "number, or one for each variable"});
  s.field("width", width,
          {.help = "channels of the layers", .min = 1, .max = 4096});
  s.field("layers", layers,
          {.help = "layers of spectral convolution", .min = 1, .max = 100});
}

std::vector<int64_t> FnoOptions::nodes_along(int64_t axes) const {
  return numbers_along("model.grid", grid, axes, kMinNodes);
}

std::vector<int64_t> FnoOptions::modes_along(int64_t axes) const {
  return numbers_along("model.modes", modes, axes, 1);
}

void FnoOptions::validate(const FieldDomain& domain) const {
  const auto nodes = nodes_along(domain.variables());
  const auto kept = modes_along(domain.variables());
  int64_t all = 1;
  for (size_t d = 0; d < nodes.size(); ++d) {
    all *= nodes[d];
    if (all > kMaxNodes) {
      throw ConfigError("model.grid",
                        fmt::format("expected at most {} nodes, got {}",
                                    kMaxNodes, fmt::join(nodes, " x ")));
    }
    if (2 * kept[d] <= nodes[d]) continue;
    throw ConfigError("model.modes",
                      fmt::format("{} nodes have at most {} modes, got {}",
                                  nodes[d], nodes[d] / 2, kept[d]),
                      "choose fewer modes or a finer model.grid");
  }
}

std::shared_ptr<FieldNet> FnoOptions::make(const FieldDomain& domain) const {
  return std::make_shared<Fno>(*this, domain);
}

Fno::Fno(const FnoOptions& o, const FieldDomain& domain)
    : options_(o),
      fields_(domain.fields),
      spline_(register_module("spline",
                              nn::GridSpline(o.nodes_along(domain.variables()),
                                             domain.low, domain.high))),
      lift_(register_module(
          "lift",
          torch::nn::Linear(2 * domain.fields + domain.variables(), o.width))),
      hidden_(register_module(
          "hidden", torch::nn::Linear(o.width, kHiddenPerWidth * o.width))),
      out_(register_module(
          "out", torch::nn::Linear(kHiddenPerWidth * o.width, domain.fields))) {
  for (int64_t n = 0; n < o.layers; ++n) {
    convolutions_.push_back(
        register_module(fmt::format("spectral{}", n),
                        nn::SpectralConv(nn::SpectralConvOptions{
                            .in = o.width,
                            .out = o.width,
                            .modes = o.modes_along(domain.variables())})));
    pointwise_.push_back(register_module(fmt::format("pointwise{}", n),
                                         torch::nn::Linear(o.width, o.width)));
  }
  places_ = register_buffer("places", spline_->places(torch::kFloat64));
  readings_ = register_parameter(kGridReadings, torch::zeros({0}), false);
}

void Fno::initialise(int64_t seed) {
  nn::initialise(*this, seed);
  const torch::NoGradGuard no_grad;
  const auto width = static_cast<double>(options_.width);
  for (size_t n = 0; n < convolutions_.size(); ++n) {
    auto weight = convolutions_[n]->named_parameters()["weight"];
    weight.copy_(RandomStream(seed, fmt::format("init/spectral{}.weight", n))
                     .uniform(weight.sizes(), 0, 1 / (width * width),
                              weight.scalar_type()));
  }
}

std::vector<int64_t> Fno::input_shape() const {
  auto shape = spline_->nodes();
  shape.push_back(2 * fields_);
  return shape;
}

void Fno::observe(const autodiff::Observations& read) {
  const torch::NoGradGuard no_grad;
  const auto readings = read.readings.to(torch::kFloat64).cpu();
  const auto points = read.points.to(torch::kFloat64).cpu();
  const auto index = spline_->nearest(points);
  const auto known = torch::isfinite(readings).to(torch::kFloat64);
  const auto empty = torch::zeros({places_.numel() / places_.size(-1), fields_},
                                  torch::kFloat64);
  const auto sums = empty.index_add(0, index, readings.nan_to_num(0));
  const auto counts = empty.index_add(0, index, known);
  const auto all = torch::cat(
      {sums / counts.clamp_min(1), (counts > 0).to(torch::kFloat64)}, 1);
  if (readings_.dim() == 1) readings_.resize_(input_shape());
  readings_.copy_(all.view(input_shape()));
}

void Fno::take_shapes(const std::map<std::string, Tensor>& tensors,
                      const std::string& prefix) {
  const torch::NoGradGuard no_grad;
  const auto found = tensors.find(prefix + kGridReadings);
  if (found == tensors.end() || found->second.dim() == 1) return;
  if (readings_.dim() == 1) readings_.resize_(input_shape());
}

Tensor Fno::coefficients() {
  if (readings_.dim() == 1) {
    throw UsageError("[fno] this network answers from readings, and has none",
                     "it is a model of the task reconstruct");
  }
  const auto type = readings_.scalar_type();
  auto x = lift_->forward(
      torch::cat({readings_, places_.to(type)}, -1).unsqueeze(0));
  for (size_t n = 0; n < convolutions_.size(); ++n) {
    x = convolutions_[n]->forward(x) + pointwise_[n]->forward(x);
    if (n + 1 < convolutions_.size()) x = torch::gelu(x);
  }
  return out_->forward(torch::gelu(hidden_->forward(x))).squeeze(0);
}

std::shared_ptr<void> Fno::hold() {
  if (held_.defined()) return nullptr;
  held_ = coefficients();
  return {static_cast<void*>(this), [this](void*) { held_.reset(); }};
}

Jet Fno::forward(const Jet& windows) {
  const auto grid = held_.defined() ? held_ : coefficients();
  const auto& rows = windows.rows();  // (M, N, T, D)
  const auto flat =
      windows.linear([](const Tensor& all) { return all.flatten(1, 2); });
  return spline_->forward(grid, flat).linear([&](const Tensor& fields) {
    return fields.reshape({rows.size(0), rows.size(1), rows.size(2), -1});
  });
}

}  // namespace propagator::models
