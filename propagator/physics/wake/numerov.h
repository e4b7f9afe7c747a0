#pragma once

#include <torch/types.h>

#include <optional>

namespace propagator::physics {

// Solves y″ = q y + g on evenly spaced rings ξ_0 … ξ_{n-1}, for each of K modes
// with its own q, and for P fields at once. In ξ = ln r neither the Poisson nor
// the diffusion equation has a first derivative, so that Numerov's compact
// scheme, of fourth order in the spacing h, needs three rings only:
//   (1 - h²q/12) y |_{j-1} - (2 + 5h²q/6) y |_j + (1 - h²q/12) y |_{j+1}
//     = h² (g_{j-1} + 10 g_j + g_{j+1}) / 12.
// At the wall y is given, at the outer ring y′ + κ y = b with κ of each mode,
// to third order.
//
// On the CPU the factored tridiagonal systems are swept, many modes at a time;
// elsewhere, where n short steps would cost more than they compute, the
// solution is a product with the inverse of each mode's matrix.
class NumerovSolver {
 public:
  enum class Method { kSweep, kProduct };
  // q (n, K), kappa (K); both on the device that will solve. A sweep is for
  // the CPU only; unless told otherwise it is what the CPU does.
  NumerovSolver(double spacing, const torch::Tensor& q,
                const torch::Tensor& kappa, std::optional<Method> method = {});

  // g (P, n, K), wall and outer (P, K) → y (P, n, K)
  torch::Tensor solve(const torch::Tensor& g, const torch::Tensor& wall,
                      const torch::Tensor& outer) const;

  // y′ at the wall, (P, K), of fifth order from four rings of y″:
  //   y_1 - y_0 - h y′_0 = ∫_0^h (h - s) y″(s) ds.
  torch::Tensor wall_slope(const torch::Tensor& y,
                           const torch::Tensor& g) const;

 private:
  torch::Tensor right_hand_side(const torch::Tensor& g,
                                const torch::Tensor& wall,
                                const torch::Tensor& outer) const;
  void factor(const torch::Tensor& kappa);
  void sweep(torch::Tensor& y) const;  // right-hand sides become solutions

  double spacing_;
  torch::Tensor q_;
  torch::Tensor wall_weights_;  // (1, 4): of y″ in the slope at the wall
  // The factors: row j loses lower_j times row j - 1, and is then multiplied
  // by inverse_j; upper_j stays. (n, K), on the CPU.
  torch::Tensor lower_, inverse_, upper_;
  torch::Tensor matrices_;  // (K, n, n), where there is no sweep
};

}  // namespace propagator::physics
