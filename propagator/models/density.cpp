#include "propagator/models/density.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <cmath>
#include <numbers>

#include "propagator/core/error.h"
#include "propagator/nn/init.h"

namespace propagator::models {

using torch::Tensor;

namespace {

std::string shape_text(const Tensor& x) {
  return x.defined() ? fmt::format("({})", fmt::join(x.sizes().vec(), ", "))
                     : "none";
}

}  // namespace

Density::Density(const DensityShape& shape) : shape_(shape) {
  const auto held = [&](const char* name, const Tensor& value) {
    return register_parameter(name, value, /*requires_grad=*/false);
  };
  shift_ = held("shift", torch::zeros({shape.variables}));
  scale_ = held("scale", torch::ones({shape.variables}));
  given_shift_ = held("given_shift", torch::zeros({shape.given}));
  given_scale_ = held("given_scale", torch::ones({shape.given}));
}

void Density::expect(const Tensor& x, const Tensor& given) const {
  const auto fits = [](const Tensor& a, int64_t columns) {
    return a.defined() && a.dim() == 2 && a.size(1) == columns;
  };
  if (fits(x, shape_.variables) && fits(given, shape_.given) &&
      x.size(0) == given.size(0)) {
    return;
  }
  throw UsageError(fmt::format(
      "[density] expected x (N, {}) and given (N, {}), got {} and {}",
      shape_.variables, shape_.given, shape_text(x), shape_text(given)));
}

Tensor Density::from_centre(const Tensor& z, const Tensor& given) const {
  return shape_.centred ? z - given.narrow(1, 0, shape_.variables) : z;
}

void Density::calibrate(const Tensor& x, const Tensor& given) {
  expect(x, given);
  const torch::NoGradGuard no_grad;
  const auto take = [](const Tensor& from, Tensor& shift, Tensor& scale) {
    if (from.size(1) == 0) return;
    shift.copy_(from.mean(0));
    const auto spread = from.std(0, /*unbiased=*/false);
    scale.copy_(torch::where(spread > 0, spread, torch::ones_like(spread)));
  };
  take(from_centre(shape_.supports.to_line(x).value, given), shift_, scale_);
  take(given, given_shift_, given_scale_);
}

void Density::initialise(int64_t seed) { nn::initialise(*this, seed); }

Tensor Density::log_prob(const Tensor& x, const Tensor& given) {
  expect(x, given);
  const auto& supports = shape_.supports;
  const auto known = scaled_given(given);
  const auto units = torch::log(scale_).sum();
  if (supports.are_lines()) {
    return scaled_log_prob(scaled_line(x, given), known) - units;
  }
  const auto [z, log_slope] = supports.to_line(x);
  std::vector<Tensor> of_turns;
  for (const auto& turn : supports.turns(z.options()).unbind(0)) {
    of_turns.push_back(scaled_log_prob(scaled_line(z + turn, given), known));
  }
  return torch::logsumexp(torch::stack(of_turns), 0) + log_slope - units;
}

Tensor Density::sample(const Tensor& given, const RandomStream& stream) {
  expect(torch::empty({given.dim() == 2 ? given.size(0) : 0, shape_.variables}),
         given);
  const torch::NoGradGuard no_grad;
  const auto middle =
      shape_.centred ? given.narrow(1, 0, shape_.variables) + shift_ : shift_;
  return shape_.supports.from_line(
      middle + scale_ * scaled_sample(scaled_given(given), stream));
}

Tensor NormalFlow::scaled_log_prob(const Tensor& x, const Tensor& given) {
  const auto normal = to_normal(x, given);
  return normal_log_prob(normal.value) + normal.log_slope;
}

Tensor NormalFlow::scaled_sample(const Tensor& given,
                                 const RandomStream& stream) {
  return from_normal(
      stream.normal({given.size(0), shape().variables}).to(given.options()),
      given);
}

Tensor normal_log_prob(const Tensor& u) {
  const double constant = 0.5 * std::log(2 * std::numbers::pi);
  return (-0.5 * u.square() - constant).sum(-1);
}

}  // namespace propagator::models
