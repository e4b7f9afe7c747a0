#include "propagator/nn/interpolating_spline.h"

#include <fmt/format.h>
#include <torch/utils.h>

#include <stdexcept>

#include "propagator/nn/spline.h"

namespace propagator::nn {
namespace {

using torch::Tensor;

constexpr int64_t kCubicDegree = 3;

}  // namespace

Tensor interpolating_knots(const Tensor& places) {
  const int64_t n = places.size(0);
  if (n < kCubicDegree + 1) {
    throw std::invalid_argument(fmt::format(
        "[interpolating_spline] expected 4 places or more, got {}", n));
  }
  const auto steps = torch::arange(1, kCubicDegree + 1, places.options());
  const auto first = places.slice(0, 0, 1), last = places.slice(0, n - 1);
  const auto before = first - steps.flip(0) * (places[1] - places[0]);
  const auto after = last + steps * (places[n - 1] - places[n - 2]);
  return torch::cat({before, first, places.slice(0, 2, n - 2), last, after});
}

autodiff::Jet interpolating_basis(const autodiff::Jet& x,
                                  const Tensor& places) {
  return spline_basis(x, interpolating_knots(places), kCubicDegree);
}

Tensor interpolating_factors(const Tensor& values, const Tensor& places) {
  const auto at =
      interpolating_basis(autodiff::Jet::constant(places), places).value();
  return torch::linalg_solve(at, values.flatten(1)).view(values.sizes());
}

}  // namespace propagator::nn
