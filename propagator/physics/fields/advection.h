#pragma once

#include "propagator/physics/fields/sine_waves.h"

namespace propagator::physics {

// States (N, X[, Y, Z]) on periodic axes, each moved by so many lengths of its
// axis: exactly, by the phases of their Fourier coefficients. (Of a wave that
// changes sign from point to point its real part is left.) Differentiable.
torch::Tensor shifted(const torch::Tensor& states,
                      const std::vector<double>& lengths);

// Advection on the unit interval, periodic: u_t + β u_x = 0. Initial values are
// sums of sines, and each frame is the initial one shifted by βt, exactly, as a
// change of the phases of its Fourier coefficients. Values (N, T, X, 1).
class Advection : public FieldProblem {
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
  std::vector<std::string> conserved() const override { return {"u"}; }
  int64_t cases_at_once() const override { return 256; }

 private:
  torch::Tensor speeds(const CaseRange& range) const;  // (N)

  int64_t points_ = 256;
  FieldTimes times_{41, 2};
  double speed_min_ = 1, speed_max_ = 1;
  SineWaveOptions waves_;
};

}  // namespace propagator::physics
