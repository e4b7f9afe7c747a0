#include "propagator/physics/fields/basis.h"

#include <cmath>
#include <numbers>

namespace propagator::physics {
namespace {

using torch::Tensor;

constexpr double kBasisPi = std::numbers::pi;

// Of wave numbers k on an axis of that spacing.
Tensor second_derivative(const Tensor& k, double spacing, LaplacianKind kind) {
  if (kind == LaplacianKind::kSpectral) return -k.square();
  return -(2 / spacing * torch::sin(k * (spacing / 2))).square();
}

AxisBasis normalised(const Tensor& functions, const Tensor& eigenvalues,
                     const torch::TensorOptions& where) {
  const auto norms = functions.square().sum(1, /*keepdim=*/true).sqrt();
  return {.matrix = (functions / norms).to(where),
          .eigenvalues = eigenvalues.to(where.device())};
}

}  // namespace

AxisBasis AxisBasis::periodic(int64_t n, double length, LaplacianKind kind,
                              const torch::TensorOptions& where) {
  const auto row = torch::arange(n, torch::kFloat64);
  const auto wave = torch::floor((row + 1) / 2);  // 0, 1, 1, 2, 2, …
  // Whole turns are taken out, so that angles of many waves are exact.
  const auto turns =
      torch::remainder(torch::outer(wave, row), static_cast<double>(n));
  const auto angle = 2 * kBasisPi / static_cast<double>(n) * turns;
  const auto is_sine = (torch::remainder(row, 2) == 0) & (row > 0);
  const auto functions =
      torch::where(is_sine.unsqueeze(1), torch::sin(angle), torch::cos(angle));
  return normalised(functions,
                    second_derivative(2 * kBasisPi / length * wave,
                                      length / static_cast<double>(n), kind),
                    where);
}

AxisBasis AxisBasis::without_flux(int64_t n, double length, LaplacianKind kind,
                                  const torch::TensorOptions& where) {
  const auto row = torch::arange(n, torch::kFloat64);
  const auto turns = torch::remainder(torch::outer(row, 2 * row + 1),
                                      4 * static_cast<double>(n));
  const auto functions =
      torch::cos(kBasisPi / (2 * static_cast<double>(n)) * turns);
  return normalised(functions,
                    second_derivative(kBasisPi / length * row,
                                      length / static_cast<double>(n), kind),
                    where);
}

Tensor AxisBasis::forward(const Tensor& values) const {
  return torch::matmul(matrix, torch::matmul(values, matrix.t()));
}

Tensor AxisBasis::inverse(const Tensor& coefficients) const {
  return torch::matmul(matrix.t(), torch::matmul(coefficients, matrix));
}

Tensor AxisBasis::laplacian() const {
  return eigenvalues.unsqueeze(1) + eigenvalues;
}

}  // namespace propagator::physics
