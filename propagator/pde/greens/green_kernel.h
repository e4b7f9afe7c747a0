#pragma once

#include <array>

#include "propagator/core/config.h"
#include "propagator/kernels/greens/green_function.h"

namespace propagator::pde {

// Which Green's function an attention takes for its bias: each field is a
// configuration key. kernels/greens/green_function.h has the formulas.
struct GreenOptions {
  kernels::GreenKind kind = kernels::GreenKind::kHeat;
  int64_t dimensions = 1;
  kernels::GreenScale scale = kernels::GreenScale::kFull;
  double rate = 1;
  std::array<double, 3> velocity = {};
  double core = 0, radius = 0;  // 0: from the sensors
  double time_core = 0;

  void describe(config::Schema& s);
};

// The (volume / N)^(1/d) of N sensors (N, d or more) in the box around them,
// over the axes that they differ in; and the diagonal of that box.
struct SensorLengths {
  double spacing, diagonal;
};
SensorLengths lengths_of(const torch::Tensor& sensors, int64_t dimensions);

// A Green's function with its physical parameters, which may be learnt: a value
// that attention takes for its bias. Coordinates have time behind space.
struct GreenKernel {
  kernels::GreenFunction function;
  torch::Tensor parameters;  // a or c, then b: (1), (1 + d), or none

  // Lengths that options leave at 0 are taken from the sensors: the core is
  // their spacing, the radius twice the diagonal of the box around them.
  // ConfigError if there are none to take them from.
  explicit GreenKernel(const GreenOptions& options,
                       const torch::Tensor& sensors = {});

  // log G, (…), of Δx (…, d) and Δt (…).
  torch::Tensor log_green(const torch::Tensor& dx,
                          const torch::Tensor& dt) const;

  // For AttentionBias::greens. The global tokens are the first ones.
  kernels::GreenTerm term(bool global_query, bool global_key) const;
  // Among tokens that all attend to one another, the first one of them global.
  kernels::GreenTerm with_global_token() const { return term(true, true); }

  // Γ, (B, 1, Tq, Tk), of coordinates (B, T, A), the first token global or not;
  // for AttentionBias::of.
  torch::Tensor logits(const torch::Tensor& queries, const torch::Tensor& keys,
                       bool global_token) const;
};

}  // namespace propagator::pde

namespace propagator::config {

template <>
struct Names<kernels::GreenKind> {
  using enum kernels::GreenKind;
  static constexpr std::pair<kernels::GreenKind, const char*> all[] = {
      {kNone, "none"},
      {kHeat, "heat"},
      {kWave, "wave"},
      {kPoisson, "poisson"},
      {kAdvectionDiffusion, "advection_diffusion"}};
};

template <>
struct Names<kernels::GreenScale> {
  using enum kernels::GreenScale;
  static constexpr std::pair<kernels::GreenScale, const char*> all[] = {
      {kFull, "full"}, {kPeak, "peak"}};
};

}  // namespace propagator::config
