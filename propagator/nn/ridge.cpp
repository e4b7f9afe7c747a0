#include "propagator/nn/ridge.h"

#include <torch/utils.h>

#include <cmath>
#include <limits>

namespace propagator::nn {
namespace {

// Shares of the largest squared singular value that are tried.
constexpr double kLeastRidge = 1e-12;
constexpr int64_t kRidgesTried = 25;  // two for each power of ten

}  // namespace

RidgeFit fit_ridge(const torch::Tensor& a, const torch::Tensor& y) {
  const torch::NoGradGuard no_grad;
  const auto [u, s, vh] = torch::linalg_svd(a, /*full_matrices=*/false);
  const auto inside = torch::mv(u.t(), y);
  const double largest = s.max().square().item<double>();
  RidgeFit best{torch::zeros({a.size(1)}, a.options())};
  double least = std::numeric_limits<double>::infinity();
  for (int64_t n = 0; n < kRidgesTried && largest > 0; ++n) {
    const double ridge =
        largest * kLeastRidge * std::pow(10, 0.5 * static_cast<double>(n));
    // H = U s²/(s² + μ) Uᵀ; without a reading its error is r / (1 - H_ii).
    const auto kept = s.square() / (s.square() + ridge);
    const auto left = y - torch::mv(u, kept * inside);
    const auto free = 1 - torch::mv(u.square(), kept);
    const double error = (left / free.clamp_min(1e-12)).norm().item<double>();
    if (!(error < least)) continue;
    least = error;
    best = {torch::mv(vh.t(), kept / s.clamp_min(1e-300) * inside), ridge};
  }
  return best;
}

}  // namespace propagator::nn
