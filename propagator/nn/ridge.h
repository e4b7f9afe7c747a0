#pragma once

#include <torch/types.h>

namespace propagator::nn {

// Ridge regression, min |A c - y|² + μ |c|², with the μ of the least
// leave-one-out error: A (n, m), y (n) → c (m).
struct RidgeFit {
  torch::Tensor factors;
  double ridge = 0;
};
RidgeFit fit_ridge(const torch::Tensor& a, const torch::Tensor& y);

}  // namespace propagator::nn
