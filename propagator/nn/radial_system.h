#pragma once

#include <torch/types.h>

namespace propagator::nn {

// Interpolation or smoothing by radial functions with a linear tail:
//   f(x) = Σ_j w_j φ(|x - x_j|) + c_0 + c·x,   Pᵀ w = 0,   P = [1, x],
//   (Φ + λ 1) w + P c = y.
// Factored once for every smoothing λ: with the columns of Q orthonormal to
// those of P, and Qᵀ Φ Q = V Λ Vᵀ,
//   w = B y,   B = Q V (Λ + λ)⁻¹ Vᵀ Qᵀ.
// Where sensors share a place, or lie in a plane, what is not determined is 0.
class RadialSystem {
 public:
  // Φ (M, M) and places (M, D), in float64.
  RadialSystem(const torch::Tensor& phi, const torch::Tensor& places);

  struct Solution {
    torch::Tensor weights;  // (M)
    torch::Tensor tail;     // (D + 1)
  };
  Solution solve(const torch::Tensor& y, double smoothing) const;
  // By how much each reading is missed by the answer without it,
  // (B y)_i / B_ii.
  torch::Tensor leave_one_out(const torch::Tensor& y, double smoothing) const;

 private:
  torch::Tensor inverse_values(double smoothing) const;

  torch::Tensor phi_;
  torch::Tensor basis_;         // (M, M - rank of P), Q V
  torch::Tensor values_;        // (M - rank of P), Λ
  torch::Tensor tail_inverse_;  // (D + 1, M), pseudoinverse of P
};

}  // namespace propagator::nn
