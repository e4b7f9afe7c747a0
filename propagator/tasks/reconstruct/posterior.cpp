#include "propagator/tasks/reconstruct/posterior.h"

#include <ATen/ops/linalg_cholesky_ex.h>
#include <ATen/ops/linalg_eigh.h>
#include <ATen/ops/linalg_solve_triangular.h>
#include <torch/utils.h>

#include <cmath>
#include <limits>

#include "propagator/core/error.h"
#include "propagator/train/levenberg_marquardt.h"

namespace propagator::tasks {
namespace {

using torch::Tensor;

// λ over the largest entry of JᵀJ's diagonal.
constexpr double kPrior = 1e-14;
// Of what parameters move the residuals by, the share that weights cannot make
// up for: below it nothing is left.
constexpr double kNothing = 1e-12;

// (JᵀJ + λ) = L Lᵀ with the least λ that has a factor.
Tensor factor_of(const Tensor& jacobian) {
  auto normal = jacobian.mm(jacobian.t());
  const double largest = normal.diagonal().max().item<double>();
  for (double prior = kPrior; prior < 1; prior *= 10) {
    auto damped = normal.clone();
    damped.diagonal().add_(prior * largest);
    const auto [factor, info] = at::linalg_cholesky_ex(damped);
    if (info.item<int64_t>() == 0) return factor;
  }
  throw NumericalError("[posterior] the Jacobian is not finite");
}

// What weights leave of the residuals that each sought parameter moves: with
// columns u of J, the least |u + J_w δ| over δ, as inner products (K, K).
Tensor left_by_weights(const Tensor& weights, const Tensor& sought) {
  std::vector<Tensor> left;
  for (const auto& column : sought.unbind()) {
    const train::DampedLeastSquares problem(weights, column);
    const double largest = problem.largest_diagonal();
    Tensor delta;
    for (double prior = kPrior; !delta.defined() && prior < 1; prior *= 10) {
      delta = problem.solve(prior * largest);
    }
    left.push_back(delta.defined() ? column + weights.t().mv(delta) : column);
  }
  const auto all = torch::stack(left);
  return all.mm(all.t());
}

// √ of the inverse's diagonal, after each parameter is scaled to move the
// residuals by 1.
Tensor deviations_of(const Tensor& left, const Tensor& moved) {
  const auto size = moved.clamp_min(1e-300);
  const auto scaled = left / size.unsqueeze(0) / size.unsqueeze(1);
  const auto [values, vectors] = at::linalg_eigh(scaled);
  const auto shares = vectors.square();  // (K, eigenvectors)
  const auto open = (values < kNothing).to(torch::kFloat64);
  const auto variances =
      (shares / values.clamp_min(kNothing)).sum(1) / size.square();
  const auto undetermined = shares.mv(open).gt(1e-6).logical_or(moved.eq(0));
  return variances.sqrt().masked_fill(undetermined,
                                      std::numeric_limits<double>::infinity());
}

}  // namespace

Posterior posterior_of(const Tensor& jacobian, int64_t sought, int64_t count,
                       int64_t readings) {
  const torch::NoGradGuard no_grad;
  const auto j = jacobian.to(torch::kFloat64);
  Posterior found;
  const auto of_readings = j.slice(1, j.size(1) - readings);
  found.used = at::linalg_solve_triangular(factor_of(j), of_readings,
                                           /*upper=*/false)
                   .square()
                   .sum()
                   .item<double>();
  if (count == 0) return found;
  const auto asked = j.narrow(0, sought, count);
  const auto weights =
      torch::cat({j.slice(0, 0, sought), j.slice(0, sought + count)});
  found.deviations =
      deviations_of(left_by_weights(weights, asked), asked.norm(2, 1)).cpu();
  return found;
}

}  // namespace propagator::tasks
