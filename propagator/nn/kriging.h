#pragma once

#include <functional>

#include "propagator/nn/radial.h"

namespace propagator::nn {

// Readings y (n) of a field at places (n, D), about its mean: a Gaussian
// process of covariance σ² (C + ρ 1), with C_ij = k(|(x_i - x_j) / l|), one
// length l for each axis, and noise of variance σ² ρ. All in float64 on the
// CPU.

struct KrigingParameters {
  torch::Tensor lengths;  // (D)
  double noise = 0;       // ρ
};

// The logarithm of the marginal likelihood with the σ² that makes it largest,
// σ² = yᵀ (C + ρ 1)⁻¹ y / n, and its gradient by log l and log ρ, (D + 1):
//   -n/2 (1 + log 2πσ²) - ½ log |C + ρ 1|,
//   ½ tr((α αᵀ / σ² - (C + ρ 1)⁻¹) ∂C),   α = (C + ρ 1)⁻¹ y.
struct KrigingLikelihood {
  double value;
  torch::Tensor gradient;
};
KrigingLikelihood kriging_likelihood(Radial kernel, const torch::Tensor& places,
                                     const torch::Tensor& y,
                                     const KrigingParameters& at);

struct KrigingSearch {
  int64_t evaluations = 100;  // of the likelihood of all readings, at most
  int64_t readings = 2000;    // that it is of, at most; 0: all
};
int64_t most_evaluations(const KrigingSearch& search);  // of every start too
// Lengths and noise of the largest likelihood, by L-BFGS over their logarithms
// within bounds: from several starts with some of the readings, then from the
// best with all.
KrigingParameters fit_kriging(Radial kernel, const torch::Tensor& places,
                              const torch::Tensor& y,
                              const KrigingSearch& search,
                              const std::function<void()>& evaluated = {});

// What answers are made of: with k = k(x, places),
//   mean kᵀ weights,   variance of a reading σ² (1 + ρ - |factor k|²).
struct KrigingSolution {
  torch::Tensor weights;  // (n), α
  torch::Tensor factor;   // (n, n), the inverse of the Cholesky factor
  double amplitude = 1;   // σ²
  double noise = 0;       // ρ, more than asked for where rounding needs it
};
KrigingSolution solve_kriging(Radial kernel, const torch::Tensor& places,
                              const torch::Tensor& y,
                              const KrigingParameters& with);

}  // namespace propagator::nn
