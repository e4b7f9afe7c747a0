#include "propagator/pde/reference/balanced_lu.h"

#include <ATen/ops/linalg_lu_factor_ex.h>
#include <ATen/ops/linalg_lu_solve.h>
#include <torch/utils.h>

#include <tuple>
#include <utility>
#include <vector>

#include "propagator/core/error.h"

namespace propagator::pde {
namespace {

// Of the smallest pivot to the largest one.
constexpr double kSingular = 1e-14;

// One after the other: libtorch 2 factors a batch in several threads, where
// MKL's factorisation of a large matrix may go wrong or never return.
std::pair<torch::Tensor, torch::Tensor> factored(const torch::Tensor& batch) {
  const int64_t n = batch.size(-1);
  std::vector<torch::Tensor> columns, pivots;
  for (const auto& matrix : batch.reshape({-1, n, n}).unbind()) {
    const auto [lu, own, info] = at::linalg_lu_factor_ex(matrix);
    columns.push_back(lu.mT());  // as they lie in memory
    pivots.push_back(own);
  }
  return {torch::stack(columns).view(batch.sizes()).mT(),
          torch::stack(pivots).view(batch.sizes().slice(0, batch.dim() - 1))};
}

}  // namespace

BalancedLu::BalancedLu(const torch::Tensor& matrix)
    : scale_(1 / matrix.abs().amax(-1, /*keepdim=*/true)) {
  std::tie(lu_, pivots_) = factored(matrix * scale_);
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

}  // namespace propagator::pde
