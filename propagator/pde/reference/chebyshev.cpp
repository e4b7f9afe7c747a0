#include "propagator/pde/reference/chebyshev.h"

#include <ATen/ops/linalg_eigvalsh.h>
#include <torch/utils.h>

#include <numbers>

namespace propagator::pde {
namespace {

using torch::Tensor;

// Eigenvalues of the matrix of Legendre's three-term recurrence, whose last
// diagonal entry is `last`.
Tensor recurrence_points(int64_t n, double last) {
  const auto k = torch::arange(1, n, torch::kFloat64);
  const auto beside = k / torch::sqrt(4 * k * k - 1);
  auto matrix = torch::diag(beside, -1) + torch::diag(beside, 1);
  matrix[n - 1][n - 1] = last;
  return at::linalg_eigvalsh(matrix);
}

// x_i - x_j with ones on the diagonal.
Tensor differences(const Tensor& nodes) {
  auto all = nodes.unsqueeze(1) - nodes.unsqueeze(0);
  all.diagonal().fill_(1);
  return all;
}

// 1 / Π_(k≠j) 2 (x_j - x_k): an interval of length 2 has capacity 1/2, so the
// products neither grow nor fall much.
Tensor barycentric_weights(const Tensor& nodes) {
  auto all = differences(nodes) * 2;
  all.diagonal().fill_(1);
  return 1 / all.prod(1);
}

}  // namespace

Tensor chebyshev_nodes(int64_t n) {
  if (n == 1) return torch::zeros({1}, torch::kFloat64);
  // A sine is odd in the last bit too.
  const auto j = torch::arange(1 - n, n, 2, torch::kFloat64);
  return torch::sin(j * (std::numbers::pi / (2 * static_cast<double>(n - 1))));
}

Tensor gauss_points(int64_t n) { return recurrence_points(n, 0); }

Tensor radau_points(int64_t n) {
  auto points = recurrence_points(
      n, static_cast<double>(n) / static_cast<double>(2 * n - 1));
  points[n - 1] = 1;
  return points;
}

Tensor interpolation_matrix(const Tensor& nodes, const Tensor& points) {
  const auto distance = points.unsqueeze(1) - nodes.unsqueeze(0);
  const auto hit = distance == 0;
  const auto share = barycentric_weights(nodes) / distance;
  const auto matrix = share / share.sum(1, /*keepdim=*/true);
  return torch::where(hit.any(1, /*keepdim=*/true), hit.to(torch::kFloat64),
                      matrix);
}

Tensor differentiation_matrix(const Tensor& nodes) {
  const auto weights = barycentric_weights(nodes);
  auto matrix =
      weights.unsqueeze(0) / weights.unsqueeze(1) / differences(nodes);
  matrix.diagonal().fill_(0);
  // A constant has derivative 0 to the last bit.
  matrix.diagonal().copy_(-matrix.sum(1));
  return matrix;
}

}  // namespace propagator::pde
