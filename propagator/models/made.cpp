#include "propagator/models/made.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>

#include "propagator/core/error.h"

namespace propagator::models {

using torch::Tensor;

namespace {

// Where the names of an order stand among the variables.
std::vector<int64_t> numbers_of(const std::vector<std::string>& order,
                                const DensityShape& shape) {
  std::vector<int64_t> numbers;
  for (const auto& name : order) {
    const auto at = std::ranges::find(shape.names, name);
    const auto number = at - shape.names.begin();
    if (at == shape.names.end() || std::ranges::count(order, name) > 1) {
      throw ConfigError(
          "model.order",
          at == shape.names.end() ? fmt::format("there is no variable {}", name)
                                  : fmt::format("{} stands there twice", name),
          fmt::format("the variables are {}", fmt::join(shape.names, ", ")));
    }
    numbers.push_back(number);
  }
  if (!order.empty() && order.size() != shape.names.size()) {
    throw ConfigError(
        "model.order",
        fmt::format("expected all {} variables, got {}", shape.names.size(),
                    order.size()),
        fmt::format("the variables are {}", fmt::join(shape.names, ", ")));
  }
  return numbers;
}

}  // namespace

void MadeOptions::describe(config::Schema& s) {
  s.field("components", components,
          {.help = "normal distributions in the mixture of a variable",
           .min = 1,
           .max = 1000});
  s.field("width", width,
          {.help = "width of the hidden layers", .min = 1, .max = 65536});
  s.field("layers", layers, {.help = "hidden layers", .min = 1, .max = 100});
  s.field("order", order,
          {.help = "the variables in the order in which one depends on those "
                   "before it; if there are none, as they come"});
}

void MadeOptions::validate(const DensityShape& shape) const {
  numbers_of(order, shape);
}

std::shared_ptr<Density> MadeOptions::make(const DensityShape& shape) const {
  return std::make_shared<Made>(*this, shape);
}

Made::Made(const MadeOptions& o, const DensityShape& shape)
    : Density(shape),
      net_(register_module("net", nn::MaskedMlp(nn::MaskedMlpOptions{
                                      .variables = shape.variables,
                                      .given = shape.given,
                                      .outputs = 3 * o.components,
                                      .width = o.width,
                                      .layers = o.layers,
                                      .order = numbers_of(o.order, shape)}))) {}

void Made::initialise(int64_t seed) {
  Density::initialise(seed);
  net_->reset_outputs();
}

nn::NormalMixture Made::mixture(const Tensor& x, const Tensor& given) {
  return nn::NormalMixture::of(net_->forward(x, given));
}

Tensor Made::scaled_log_prob(const Tensor& x, const Tensor& given) {
  return nn::NormalMixture::log_prob(net_->forward(x, given), x).sum(-1);
}

Tensor Made::scaled_sample(const Tensor& given, const RandomStream& stream) {
  const int64_t count = given.size(0), variables = shape().variables;
  const auto drawn =
      nn::draw_mixture_numbers(count, variables, stream, given.options());
  auto x = torch::zeros({count, variables}, given.options());
  for (const int64_t d : net_->order()) {
    const auto all = mixture(x, given).sample(drawn.uniform, drawn.normal);
    x.select(1, d).copy_(all.select(1, d));
  }
  return x;
}

}  // namespace propagator::models
