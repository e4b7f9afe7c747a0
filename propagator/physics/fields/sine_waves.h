#pragma once

#include "propagator/physics/fields/field_problem.h"

namespace propagator::physics {

// Initial values on the unit interval, periodic:
//   u(x) = Σ_m A_m sin(2π k_m x + φ_m),
// with amplitudes and phases uniform. Either every k from 1 to `modes` is there
// once, or `drawn` waves have a k drawn from these, each for itself.
struct SineWaveOptions {
  int64_t modes = 4, drawn = 2;
  double amplitude_min = 0, amplitude_max = 1;
  bool unit_max = false;

  void describe(config::Schema& schema);
  void validate(int64_t points) const;
  int64_t waves() const { return drawn > 0 ? drawn : modes; }
};

// Those of N cases.
struct SineWaves {
  torch::Tensor amplitude, mode, phase;  // (N, M), float64 on the CPU

  // With unit_max they are scaled to max |u| = 1 on so many points.
  static SineWaves draw(const SineWaveOptions& options, const CaseRange& range,
                        int64_t points);
  torch::Tensor at(const torch::Tensor& x) const;        // (X) -> (N, X)
  torch::Tensor integral(const torch::Tensor& x) const;  // one of them
  // Moved to the right by as much as each case says, (N).
  SineWaves moved(const torch::Tensor& distance) const;
};

}  // namespace propagator::physics
