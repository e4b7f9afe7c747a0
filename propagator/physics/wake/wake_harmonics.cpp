#include "propagator/physics/wake/wake_harmonics.h"

#include <torch/types.h>
#include <torch/utils.h>

#include <numbers>

namespace propagator::physics {

using torch::Tensor;

Tensor harmonic_columns(const Tensor& angles, int64_t harmonics) {
  std::vector<Tensor> columns{torch::ones_like(angles)};
  for (int64_t k = 1; k <= harmonics; ++k) {
    const auto angle = static_cast<double>(k) * angles;
    columns.push_back(torch::cos(angle));
    columns.push_back(torch::sin(angle));
  }
  return torch::stack(columns, 1);
}

Tensor fit_harmonics(const Tensor& times, const Tensor& signals,
                     double frequency, int64_t harmonics) {
  const auto columns =
      harmonic_columns(2 * std::numbers::pi * frequency * times, harmonics);
  auto shape = signals.sizes().vec();
  shape[0] = columns.size(1);
  const auto normal = torch::matmul(columns.t(), columns);
  const auto right =
      torch::matmul(columns.t(), signals.reshape({signals.size(0), -1}));
  return torch::linalg_solve(normal, right).view(shape);
}

Tensor turn_harmonics(const Tensor& coefficients, const Tensor& turns) {
  std::vector<int64_t> shape(static_cast<size_t>(coefficients.dim() - 1), 1);
  shape[0] = turns.size(0);
  std::vector<Tensor> turned{coefficients.select(1, 0)};
  for (int64_t k = 1; 2 * k < coefficients.size(1); ++k) {
    const auto a = coefficients.select(1, 2 * k - 1);
    const auto b = coefficients.select(1, 2 * k);
    const auto angle = (static_cast<double>(k) * turns).view(shape);
    const auto c = torch::cos(angle), s = torch::sin(angle);
    turned.push_back(a * c + b * s);
    turned.push_back(b * c - a * s);
  }
  return torch::stack(turned, 1);
}

Tensor lagrange_weights(const Tensor& x, const Tensor& nodes) {
  std::vector<Tensor> weights;
  for (int64_t j = 0; j < nodes.size(0); ++j) {
    auto weight = torch::ones_like(x);
    for (int64_t m = 0; m < nodes.size(0); ++m) {
      if (m != j) weight = weight * (x - nodes[m]) / (nodes[j] - nodes[m]);
    }
    weights.push_back(weight);
  }
  return torch::stack(weights, 1);
}

}  // namespace propagator::physics
