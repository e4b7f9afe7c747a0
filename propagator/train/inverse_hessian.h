#pragma once

#include <torch/types.h>

namespace propagator::train {

// How the self-scaled Broyden update weighs its parts,
//   H ← (H − H y yᵀH / yᵀHy + φ v vᵀ) / τ + s sᵀ / yᵀs,
//   v = √(yᵀHy) (s / yᵀs − H y / yᵀHy):
// φ = 1, τ = 1 is BFGS, φ = 0 DFP. With b = sᵀBs / yᵀs (B = H⁻¹),
// h = yᵀHy / yᵀs and a = h b − 1 ≥ 0,
//   ρ = min(1, h (1 − √(a / (a + 1)))),
//   θ = max((ρ − 1) / a, min(1 / ρ, (1 − b) / b)),   σ = 1 + a θ,
//   φ = (1 − θ) / σ,   τ₁ = min(1, 1 / b),
//   τ = τ₁ min(σ^(−1/(n−1)), 1/θ) for θ > 0, else min(τ₁ σ^(−1/(n−1)), σ).
struct BroydenScaling {
  double phi = 1, tau = 1;

  static BroydenScaling of(double b, double h, int64_t n);
};

// A dense approximation H (n, n) of the inverse Hessian, in float64 where the
// parameters are. Until its first update it is the identity. An update waits
// for the next product with a gradient: that makes both in one pass over H
// (kernels/symmetric_update.h).
class InverseHessian {
 public:
  explicit InverseHessian(const torch::Tensor& like);  // (n)

  // −H g into `out`; the slope g·out.
  double direction(const torch::Tensor& gradient, torch::Tensor& out);
  // After a step of `step` times the last direction, by `s`, to where the
  // gradient is `gradient` and has changed by `y`. The first one scales H by
  // yᵀs / yᵀy before. Curvature that is no more than rounding is not learned.
  void update(double step, const torch::Tensor& s, const torch::Tensor& y,
              const torch::Tensor& gradient);

  // False if it is not positive definite: it is then the identity again.
  bool mend();
  void reset();
  bool is_identity() const { return is_identity_; }

  torch::Tensor matrix() const;  // a copy, with every update
  void restore(const torch::Tensor& matrix, bool is_identity);

 private:
  // An update that waits: H is s matrix_ + pᵀ q. None: s is 1, p and q zero.
  struct Waiting {
    double s = 1;
    torch::Tensor p, q;  // (2, n)
  };
  Waiting none() const;
  // The product with a gradient, and what waits.
  torch::Tensor times(const torch::Tensor& gradient);

  torch::Tensor matrix_;  // (n, n), of which the lower triangle counts
  Waiting waiting_;
  torch::Tensor product_;  // (n), H g of the last direction; undefined: unknown
  double slope_ = 0;       // and gᵀH g, negative
  bool is_identity_ = true;
};

}  // namespace propagator::train
