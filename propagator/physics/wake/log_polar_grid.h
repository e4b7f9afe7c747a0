#pragma once

#include <torch/types.h>

#include <array>

namespace propagator::physics {

// Fields outside a cylinder of radius 1/2, on rings that are evenly spaced in
// ξ = ln(r / (1/2)), with a Fourier series in the angle:
//   f(ξ, θ) = Σ_k a_k(ξ) cos kθ + b_k(ξ) sin kθ,  k = 0 … K - 1.
// As coefficients a field is (2, n, K): the a, then the b, with b_0 = 0. At
// points it is (2, n, P): its even and its odd part, ½ (f(θ) ± f(-θ)), at P
// angles of the upper half circle. Transforms are matrix products of half the
// size that whole circles would need. Products at points have no aliasing,
// since 2P > 3 (K - 1).
class LogPolarGrid {
 public:
  LogPolarGrid(int64_t rings, int64_t modes, double outer_radius,
               const torch::Device& device);

  int64_t rings() const { return radius_.size(0); }        // n
  int64_t modes() const { return wave_number_.size(-1); }  // K
  double spacing() const { return spacing_; }              // of ξ
  double outer_radius() const { return outer_radius_; }
  const torch::Tensor& radius() const { return radius_; }            // (n, 1)
  const torch::Tensor& angles() const { return angles_; }            // (P)
  const torch::Tensor& wave_number() const { return wave_number_; }  // (K)
  torch::TensorOptions options() const { return radius_.options(); }

  // One field, or several: (…, 2, n, K) ↔ (…, 2, n, P).
  torch::Tensor to_points(const torch::Tensor& modes) const;
  torch::Tensor to_modes(const torch::Tensor& points) const;
  // A function of ring radius and angle, both (…), on the whole circle.
  template <class Function>
  torch::Tensor modes_of(const Function& f) const {
    const auto up = f(radius_, angles_), down = f(radius_, -angles_);
    return to_modes(torch::stack({(up + down) / 2, (up - down) / 2}));
  }

  // ∂/∂ξ and ∂²/∂ξ² by seven points, of sixth order inside; and at the wall
  // alone: (2, n, K) → (2, K).
  torch::Tensor d_xi(const torch::Tensor& f) const { return apply(first_, f); }
  torch::Tensor d_xi2(const torch::Tensor& f) const {
    return apply(second_, f);
  }
  torch::Tensor d_xi_at_wall(const torch::Tensor& f) const;
  torch::Tensor d_theta(const torch::Tensor& modes) const;

 private:
  static constexpr int64_t kPoints = 7;
  // Row i has the weights of the seven values for the derivative at the i-th.
  struct Stencil {
    std::array<double, kPoints> inside = {};
    torch::Tensor first, last;  // (3, 7): at the first and last three rings
  };
  Stencil make_stencil(int order) const;
  torch::Tensor apply(const Stencil& stencil, const torch::Tensor& f) const;

  double outer_radius_, spacing_;
  torch::Tensor radius_, angles_, wave_number_;
  torch::Tensor synthesis_;  // (2, K, P)
  torch::Tensor analysis_;   // (2, P, K)
  torch::Tensor turn_;       // (2, 1, K): k and -k
  Stencil first_, second_;
};

// The product of two fields at points, (2, n, P) each; and a factor times it,
// added to a sum.
torch::Tensor product(const torch::Tensor& f, const torch::Tensor& g);
void add_product(const torch::Tensor& sum, const torch::Tensor& f,
                 const torch::Tensor& g, double factor);

}  // namespace propagator::physics
