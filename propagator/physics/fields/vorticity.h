#pragma once

#include "propagator/physics/fields/field_problem.h"

namespace propagator::physics {

enum class VorticityStart { kRandom, kTaylorGreen };

// The flow of a fluid on the unit torus by its vorticity:
//   w_t + u·∇w = ν Δw + f,  f = A (sin + cos)(2π(x + y)),  -Δψ = w,
//   u = (ψ_y, -ψ_x),
// in Fourier coefficients of which the upper third along each axis is kept 0,
// by exponential Runge-Kutta steps of fourth order. Initial values are a
// Gaussian field of covariance σ² (-Δ + τ²)^-2.5, or the vortices of Taylor and
// Green, cos 2πmx cos 2πmy, which decay as e^{-8 π² m² ν t} without f. Values
// (N, T, X, Y, 1).
class Vorticity : public FieldProblem {
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
  bool continues() const override { return true; }
  int64_t computed_nodes() const override { return refine_; }
  std::vector<std::string> conserved() const override { return {"vorticity"}; }
  int64_t cases_at_once() const override { return 8; }

 private:
  torch::Tensor viscosities(const CaseRange& range) const;  // (N)
  // Of `grid` points along each axis, (N, grid, grid/2 + 1).
  torch::Tensor initial(const CaseRange& range, int64_t grid) const;
  // Steps coefficients (N, n, n/2 + 1) and gives so many frames (N, n, n).
  void march(torch::Tensor state, const torch::Tensor& viscosities,
             int64_t steps, int64_t count,
             const std::function<void(const torch::Tensor& frame)>& take) const;
  torch::Tensor frames(const CaseRange& range, int64_t grid,
                       int64_t steps) const;

  int64_t points_ = 64, refine_ = 1, steps_ = 20;
  FieldTimes times_{51, 50};
  double viscosity_min_ = 1e-3, viscosity_max_ = 1e-3;
  double forcing_ = 0.1;
  VorticityStart start_ = VorticityStart::kRandom;
  double variance_ = 18.520259177452136, tau_ = 7;  // 7^{3/2}
  int64_t modes_ = 16, vortices_ = 1;
};

}  // namespace propagator::physics

namespace propagator::config {

template <>
struct Names<physics::VorticityStart> {
  using enum physics::VorticityStart;
  static constexpr std::pair<physics::VorticityStart, const char*> all[] = {
      {kRandom, "random"}, {kTaylorGreen, "taylor-green"}};
};

}  // namespace propagator::config
