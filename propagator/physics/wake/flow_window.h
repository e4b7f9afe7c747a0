#pragma once

#include "propagator/physics/wake/log_polar_grid.h"

namespace propagator::physics {

// Velocity and pressure at points of a plane, (…) each.
struct FlowFields {
  torch::Tensor u, v, p;
};

// Samples the flow on a grid at scattered points outside the cylinder. Along a
// ring the Fourier series is summed; between two rings each mode is the quintic
// with their values, first and second derivatives. u and v are the derivatives
// of that one function ψ, so that they have no divergence between grid points
// either.
class FlowWindow {
 public:
  // x and y (N), inside the outer ring and outside the cylinder.
  FlowWindow(const LogPolarGrid& grid, const torch::Tensor& x,
             const torch::Tensor& y);

  // ψ and total head (2, n, K) → (N) each
  FlowFields sample(const torch::Tensor& stream,
                    const torch::Tensor& head) const;

 private:
  // A field's modes at the points' radii, (2, N, K), and their ξ derivative.
  struct AtPoints {
    torch::Tensor value, slope;
  };
  AtPoints interpolate(const torch::Tensor& f, bool with_slope) const;

  const LogPolarGrid& grid_;
  torch::Tensor below_;             // (N): the ring within
  torch::Tensor weights_, slopes_;  // (6, N, 1): of f, f′, f″ at both rings
  torch::Tensor cos_, sin_;         // (N): of the angle
  torch::Tensor radius_;            // (N)
  torch::Tensor waves_;             // (2, N, K): cos kθ, sin kθ
};

// What the differences of a regular window say of the fields on it.
struct FlowResidual {
  double divergence_rms = 0, divergence_max = 0;  // U / D
  double momentum_rms = 0, momentum_max = 0;      // U² / D
};

// Fourth-order central differences of fields (T, Y, X) with the given spacings,
// at all points that have two neighbours on either side in all directions:
//   ∂u/∂x + ∂v/∂y  and  u_t + (u·∇)u + ∇p - ν ∇²u.
// Of fewer than five times the momentum is not known: NaN.
FlowResidual flow_residual(const FlowFields& fields, double dt, double dy,
                           double dx, double viscosity);

}  // namespace propagator::physics
