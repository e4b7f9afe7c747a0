#include "propagator/physics/balanced_lu.h"

#include <ATen/ops/linalg_lu_factor_ex.h>
#include <ATen/ops/linalg_lu_solve.h>
#include <torch/utils.h>

#include <tuple>

#include "propagator/core/error.h"

namespace propagator::physics {
namespace {

// Of the smallest pivot to the largest one.
constexpr double kSingular = 1e-14;

}  // namespace

BalancedLu::BalancedLu(const torch::Tensor& matrix)
    : scale_(1 / matrix.abs().amax(-1, /*keepdim=*/true)) {
  std::tie(lu_, pivots_, std::ignore) =
      at::linalg_lu_factor_ex(matrix * scale_);
  const auto pivots = lu_.diagonal(0, -2, -1).abs();
  const auto good = pivots.amin(-1) > kSingular * pivots.amax(-1);
  if (good.all().item<bool>()) return;  // NaN is not
  throw NumericalError(
      "collocation: the linear system is singular",
      "the conditions may leave the fields undetermined, or repeat or "
      "contradict one another");
}

torch::Tensor BalancedLu::solve(const torch::Tensor& right) const {
  return at::linalg_lu_solve(lu_, pivots_, right * scale_);
}

}  // namespace propagator::physics
