#include "propagator/nn/radial_system.h"

#include <torch/utils.h>

#include <limits>

namespace propagator::nn {
namespace {

using torch::Tensor;

// Below this share of the largest, a singular value or eigenvalue is rounding.
double rounding(int64_t size) {
  return static_cast<double>(size) * std::numeric_limits<double>::epsilon();
}

}  // namespace

RadialSystem::RadialSystem(const Tensor& phi, const Tensor& places)
    : phi_(phi) {
  const torch::NoGradGuard no_grad;
  const int64_t sensors = places.size(0);
  const auto tail =
      torch::cat({torch::ones({sensors, 1}, torch::kFloat64), places}, 1);
  const auto [u, s, vh] = torch::linalg_svd(tail, /*full_matrices=*/true);
  const int64_t rank = (s > s[0] * rounding(sensors)).sum().item<int64_t>();
  tail_inverse_ = torch::matmul(vh.slice(0, 0, rank).t() / s.slice(0, 0, rank),
                                u.slice(1, 0, rank).t());
  const auto q = u.slice(1, rank);
  if (q.size(1) == 0) {
    values_ = torch::zeros({0}, torch::kFloat64);
    basis_ = q;
    return;
  }
  const auto inside = torch::matmul(q.t(), torch::matmul(phi, q));
  const auto [values, vectors] = torch::linalg_eigh((inside + inside.t()) / 2);
  values_ = values;
  basis_ = torch::matmul(q, vectors);
}

Tensor RadialSystem::inverse_values(double smoothing) const {
  if (values_.size(0) == 0) return values_;
  const auto values = values_ + smoothing;
  const auto least = values.max() * rounding(values.size(0));
  return torch::where(values > least, 1 / values, torch::zeros_like(values));
}

RadialSystem::Solution RadialSystem::solve(const Tensor& y,
                                           double smoothing) const {
  const torch::NoGradGuard no_grad;
  const auto weights =
      torch::mv(basis_, inverse_values(smoothing) * torch::mv(basis_.t(), y));
  const auto rest = y - torch::mv(phi_, weights) - smoothing * weights;
  return {weights, torch::mv(tail_inverse_, rest)};
}

Tensor RadialSystem::leave_one_out(const Tensor& y, double smoothing) const {
  const torch::NoGradGuard no_grad;
  const auto inverse = inverse_values(smoothing);
  const auto weights = torch::mv(basis_, inverse * torch::mv(basis_.t(), y));
  const auto diagonal = torch::mv(basis_.square(), inverse);
  // A sensor that alone decides something of the tail cannot be left out.
  return torch::where(diagonal > 0, weights / diagonal,
                      torch::zeros_like(weights));
}

}  // namespace propagator::nn
