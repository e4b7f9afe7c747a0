#pragma once

#include "propagator/physics/fields/field_problem.h"

namespace propagator::physics {

// What becomes of temperatures (N, X, Y) on the points of the unit square,
// faces included, by the time t with α t = `diffusion`: those on the faces stay
// and decide the steady state S, and the rest decays,
//   S + Σ_k c_k e^{-π² |k|² α t} sin(π k_x x) sin(π k_y y),
// with as many sines as there are points inside. Exact, and differentiable.
torch::Tensor diffused(const torch::Tensor& states, double diffusion);

// Heat on the unit square or cube, u_t = α Δu, with temperatures on the faces
// that vary along them and not in time. The solution is in closed form:
//   u = S + Σ_k c_k e^{-α π² |k|² t} Π_i sin(π k_i x_i),
// a harmonic S with random values in the corners and random sums of sines on
// the faces, which decay into the domain as sinh, and Gaussian c_k of variance
// |k|^{-2 roughness}. Points include the faces. Values (N, T, X, Y[, Z], 1).
class HeatFields : public FieldProblem {
 public:
  void describe(config::Schema& schema) override;
  void validate() const override;
  FieldLayout layout() const override;
  FieldCases solve(const CaseRange& range) const override;
  std::map<std::string, double> assess(const CaseRange& range,
                                       const FieldCases& found,
                                       FieldCheck check) const override;
  torch::Tensor continued(const torch::Tensor& states,
                          const torch::Tensor& parameters,
                          int64_t count) const override;
  bool continues() const override { return dims_ == 2; }
  FieldGrid grid() const override { return FieldGrid::kEnds; }
  int64_t cases_at_once() const override { return dims_ == 2 ? 32 : 4; }

 private:
  // S at the points, (N, X, Y[, Z]).
  torch::Tensor steady(const CaseRange& range) const;
  torch::Tensor coefficients(const CaseRange& range) const;   // (N, K, K[, K])
  torch::Tensor diffusivities(const CaseRange& range) const;  // (N)

  int64_t dims_ = 2, points_ = 33;
  FieldTimes times_{21, 1};
  double diffusivity_min_ = 0.005, diffusivity_max_ = 0.05;
  int64_t modes_ = 12, boundary_modes_ = 4;
  double amplitude_ = 1, boundary_amplitude_ = 0.5, roughness_ = 1.5;
};

}  // namespace propagator::physics
