#include "propagator/pde/reference/spectral_grid.h"

#include <torch/utils.h>

#include <cmath>

#include "propagator/pde/reference/chebyshev.h"

namespace propagator::pde {

using torch::Tensor;

SpectralGrid::SpectralGrid(std::vector<Axis> axes,
                           std::vector<std::vector<int64_t>> conditions)
    : axes_(std::move(axes)), conditions_(std::move(conditions)) {
  for (int64_t f = 0; f < fields(); ++f) {
    int64_t size = 1;
    for (int64_t x = 0; x < variables(); ++x) {
      size *= axis(x).points + this->conditions(f, x);
    }
    starts_.push_back(starts_.back() + size);
  }
}

int64_t SpectralGrid::conditions(int64_t f, int64_t variable) const {
  return conditions_[static_cast<size_t>(f)][static_cast<size_t>(variable)];
}

Tensor SpectralGrid::field(const Tensor& u, int64_t f) const {
  auto shape = u.sizes().vec();
  shape.pop_back();
  for (int64_t x = 0; x < variables(); ++x) {
    shape.push_back(axis(x).points + conditions(f, x));
  }
  const int64_t start = starts_[static_cast<size_t>(f)];
  return u.narrow(-1, start, starts_[static_cast<size_t>(f) + 1] - start)
      .view(shape);
}

Tensor SpectralGrid::nodes(int64_t f, int64_t variable) const {
  const auto& [count, length, marched] = axis(variable);
  const int64_t held = conditions(f, variable);
  if (!marched) return chebyshev_nodes(count + held);
  const auto points = radau_points(count);
  if (held == 0) return points;
  return torch::cat({torch::full({1}, -1, torch::kFloat64), points});
}

Tensor SpectralGrid::matrix(int64_t f, int64_t variable, int64_t order,
                            const Tensor& at) const {
  const auto& [count, length, marched] = axis(variable);
  const int64_t held = conditions(f, variable);
  const auto places = nodes(f, variable);
  const auto slope = differentiation_matrix(places) * (2 / length);
  // The derivative at the nodes.
  auto values = torch::eye(places.size(0), count + held, torch::kFloat64);
  for (int64_t k = 1; k <= order; ++k) {
    values = torch::matmul(slope, values);
    if (!marched || k >= held) continue;
    values[0].zero_();
    values[0][count + k] = 1;
  }
  return torch::matmul(interpolation_matrix(places, at), values);
}

Tensor SpectralGrid::along(int64_t variable, Place place, int64_t owner) const {
  const auto& [count, length, marched] = axis(variable);
  switch (place) {
    case Place::kPoints:
      return marched ? radau_points(count) : gauss_points(count);
    case Place::kNodes:
      return nodes(owner, variable);
    case Place::kLow:
      return torch::full({1}, -1, torch::kFloat64);
    case Place::kHigh:
      break;
  }
  return torch::ones({1}, torch::kFloat64);
}

Tensor SpectralGrid::derivative(const autodiff::Derivative& derivative,
                                const Places& places, int64_t owner) const {
  auto product = torch::ones({1, 1}, torch::kFloat64);
  for (int64_t x = 0; x < variables(); ++x) {
    const auto i = static_cast<size_t>(x);
    product =
        torch::kron(product, matrix(derivative.field, x, derivative.orders[i],
                                    along(x, places[i], owner)));
  }
  auto all = torch::zeros({product.size(0), unknowns()}, torch::kFloat64);
  all.narrow(1, starts_[static_cast<size_t>(derivative.field)], product.size(1))
      .copy_(product);
  return all;
}

Tensor SpectralGrid::points(const Places& places, int64_t owner) const {
  auto all = torch::zeros({1, 0}, torch::kFloat64);
  for (int64_t x = 0; x < variables(); ++x) {
    const auto at = (along(x, places[static_cast<size_t>(x)], owner) + 1) *
                    (axis(x).length / 2);
    const int64_t before = all.size(0), count = at.size(0);
    all = torch::cat(
        {all.repeat_interleave(count, 0), at.repeat({before}).unsqueeze(1)}, 1);
  }
  return all;
}

}  // namespace propagator::pde
