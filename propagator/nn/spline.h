#pragma once

#include "propagator/autodiff/jet.h"

namespace propagator::nn {

// The knots of splines of degree p on G equal intervals of [low, high], with p
// more steps on either side: (G + 2p + 1).
torch::Tensor uniform_knots(int64_t intervals, int64_t degree, double low,
                            double high, const torch::TensorOptions& options);

// The B-splines of degree p over rising knots t, (…, K), at x:
//   B_i,0 = 1 on [t_i, t_i+1) and 0 elsewhere,
//   B_i,q = (x - t_i) S_i + (t_i+q+1 - x) S_i+1,
//   B'_i,q = q (S_i - S_i+1),   S_i = B_i,q-1 / (t_i+q - t_i)
// (Cox, de Boor). Jets (M; …) → (M; …, K - p - 1); leading dimensions of the
// knots broadcast with those of x. The derivative p is constant between knots
// and jumps at them; later ones are taken as zero.
autodiff::Jet spline_basis(const autodiff::Jet& x, const torch::Tensor& knots,
                           int64_t degree);

}  // namespace propagator::nn
