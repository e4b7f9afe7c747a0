#include "propagator/models/gaussian.h"

#include <fmt/format.h>
#include <torch/types.h>
#include <torch/utils.h>

namespace propagator::models {

using torch::Tensor;

void GaussianOptions::describe(config::Schema& s) {
  s.field("width", width,
          {.help = "width of a hidden layer", .min = 1, .max = 65536});
  s.field("layers", layers, {.help = "hidden layers", .min = 1, .max = 100});
}

std::shared_ptr<Density> GaussianOptions::make(
    const DensityShape& shape) const {
  return std::make_shared<Gaussian>(*this, shape);
}

Gaussian::Gaussian(const GaussianOptions& o, const DensityShape& shape)
    : NormalFlow(shape) {
  const int64_t d = shape.variables;
  // One number more than is given, which may be none.
  in_ = register_module("in", torch::nn::Linear(1 + shape.given, o.width));
  for (int64_t n = 1; n < o.layers; ++n) {
    hidden_.push_back(register_module(fmt::format("hidden{}", n),
                                      torch::nn::Linear(o.width, o.width)));
  }
  out_ = register_module("out", torch::nn::Linear(o.width, 2 * d + d * d));
}

void Gaussian::initialise(int64_t seed) {
  NormalFlow::initialise(seed);
  const torch::NoGradGuard no_grad;
  out_->weight.zero_();
  out_->bias.zero_();
}

Gaussian::Numbers Gaussian::numbers(const Tensor& given) {
  const int64_t count = given.size(0), d = shape().variables;
  auto y = torch::silu(in_->forward(
      torch::cat({torch::ones({count, 1}, given.options()), given}, 1)));
  for (auto& layer : hidden_) y = y + torch::silu(layer->forward(y));
  const auto all = out_->forward(y);
  return {all.slice(1, 0, d), all.slice(1, d, 2 * d),
          all.slice(1, 2 * d).reshape({count, d, d}).tril(-1)};
}

nn::Mapped Gaussian::to_normal(const Tensor& x, const Tensor& given) {
  const auto at = numbers(given);
  const auto off = x - at.mean;
  const auto u = at.log_scale.exp() * off -
                 torch::matmul(at.lower, off.unsqueeze(-1)).squeeze(-1);
  return {u, at.log_scale.sum(1)};
}

Tensor Gaussian::from_normal(const Tensor& u, const Tensor& given) {
  const auto at = numbers(given);
  auto off = torch::zeros_like(u);
  for (int64_t d = 0; d < shape().variables; ++d) {
    const auto before = (at.lower.select(1, d) * off).sum(1);
    off.select(1, d).copy_((u.select(1, d) + before) *
                           (-at.log_scale.select(1, d)).exp());
  }
  return at.mean + off;
}

}  // namespace propagator::models
