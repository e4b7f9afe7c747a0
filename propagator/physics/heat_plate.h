#pragma once

#include <torch/types.h>

#include "propagator/core/config.h"

namespace propagator::physics {

enum class PlateConfiguration { kBase, kChallenge1, kChallenge2 };
enum class TimeStep { kCfl, kFixed };

// Heat conduction in a rectangular plate with fixed edge temperatures,
//   ∂T/∂t = α (∂²T/∂x² + ∂²T/∂y²),
// by explicit Euler and the five-point Laplacian on rows × cols nodes.
// Row 0 is the top, column 0 the left edge; top and bottom own the corners.
struct HeatPlateOptions {
  PlateConfiguration configuration = PlateConfiguration::kBase;
  int64_t rows = 26;
  int64_t cols = 26;
  double height = 1;
  double width = 1;
  int64_t frames = 401;
  TimeStep time_step = TimeStep::kCfl;
  double cfl = 0.4;
  double dt = 0;
  double alpha_min = 0.01;
  double alpha_max = 0.1;
  int64_t segment_start = 8;
  int64_t segment_length = 4;

  void describe(config::Schema& schema);
  // ConfigError if the fields contradict one another.
  void validate() const;

  double dx() const { return width / static_cast<double>(cols - 1); }
  double dy() const { return height / static_cast<double>(rows - 1); }
  // The largest stable step, 1 / (2 α (1/dx² + 1/dy²)).
  double largest_step(double alpha) const;
  // Six digits of slack: a float32 step may round above the limit.
  bool is_stable(double alpha, double step) const {
    return alpha > 0 && step > 0 && step <= largest_step(alpha) * (1 + 1e-6);
  }
  // The step this configuration takes for a case of diffusivity α. With `cfl`
  // it is a fixed fraction of the largest one, so α·dt is the same in every
  // case and α does nothing; with `fixed` one step serves all cases.
  double step(double alpha) const;
};

// Cases to solve. The boundary values are those of the first frame.
struct PlateCases {
  torch::Tensor first;  // (N, R, C) frame 0, edges included
  torch::Tensor alpha;  // (N)
  torch::Tensor dt;     // (N)

  int64_t size() const { return alpha.size(0); }
  PlateCases select(const torch::Tensor& indices) const;
  PlateCases to(const torch::TensorOptions& options) const;
};

// Cases [begin, begin + count) of the random ensemble that `seed` names, on
// the CPU in float64. Case n is the same whatever begin and count are.
PlateCases draw_cases(const HeatPlateOptions& options, int64_t seed,
                      int64_t begin, int64_t count);

// The first `options.frames` frames of each case: (N, T, R, C), in the type
// and on the device of the cases. NumericalError if a case's step is unstable.
torch::Tensor solve(const HeatPlateOptions& options, const PlateCases& cases);

// The same in tensor operations on any device, one frame at a time; on the CPU
// `solve` runs over cases with threads instead.
torch::Tensor solve_with_tensors(const HeatPlateOptions& options,
                                 const PlateCases& cases);

// The diffusivity of each case by least squares over its frames,
//   α dt = Σ (T[n+1] - T[n]) · L T[n] / Σ (L T[n])²,
// with L the five-point Laplacian, over interior nodes and n, and then within
// what is stable. (N, T ≥ 2, R, C), dt (N) → (N)
torch::Tensor fit_alpha(const HeatPlateOptions& options,
                        const torch::Tensor& frames, const torch::Tensor& dt);

// The temperature after infinite time: the discrete Laplace equation with the
// frame's edges, solved exactly by sine transforms. (N, R, C) → (N, R, C)
torch::Tensor steady_state(const HeatPlateOptions& options,
                           const torch::Tensor& frames);

}  // namespace propagator::physics

namespace propagator::config {

template <>
struct Names<physics::PlateConfiguration> {
  using enum physics::PlateConfiguration;
  static constexpr std::pair<physics::PlateConfiguration, const char*> all[] = {
      {kBase, "base"},
      {kChallenge1, "challenge-1"},
      {kChallenge2, "challenge-2"}};
};

template <>
struct Names<physics::TimeStep> {
  using enum physics::TimeStep;
  static constexpr std::pair<physics::TimeStep, const char*> all[] = {
      {kCfl, "cfl"}, {kFixed, "fixed"}};
};

}  // namespace propagator::config
