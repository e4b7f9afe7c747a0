#pragma once

#include "propagator/core/config.h"
#include "propagator/physics/heat_plate.h"
#include "propagator/tasks/density/inference.h"
#include "propagator/tasks/density/uniform_prior.h"

namespace propagator::tasks {

// A unit square of rows × cols nodes whose edges have known temperatures;
// frames are `interval` apart, the first one that long after the start.
struct PlateInferenceOptions {
  int64_t rows = 10, cols = 10, frames = 5;
  double interval = 0.2;
  double noise = 0.1;
  double alpha_min = 0.01, alpha_max = 0.1;
  double initial_min = 0, initial_max = 1;
  double left = 1, right = 0, top = 0.5, bottom = 0;

  void describe(config::Schema& schema);
};

// How well does a plate conduct heat, and how warm was it at first, given noisy
// frames of its inner nodes? Diffusivity α and the temperature T0 of all inner
// nodes at the start are uniform before anything is observed; the step of the
// simulator is the same for every α, so that α matters.
//
// Noise is white and normal, so what is orthogonal to all frames that the
// simulator can make says nothing of the unknowns: the summary is the
// projection onto the principal components of those. Frames are linear in T0,
//   F(α, T0) = A(α) + T0 B(α),
// so the likelihood is normal in T0, and its integral over T0 a difference of
// error functions; over α it is summed on a grid.
class PlateInference : public Inference {
 public:
  // ConfigError if these contradict one another.
  explicit PlateInference(const PlateInferenceOptions& options);

  std::vector<std::string> unknowns() const override;
  std::vector<std::string> observed() const override;
  std::string describe() const override;
  nn::Supports supports() const override { return prior_.supports(); }
  std::vector<double> units() const override { return prior_.widths(); }
  Pairs draw(int64_t seed, int64_t begin, int64_t count) const override;
  // The maximum of the likelihood, a little off the edges of the prior.
  torch::Tensor estimate(const torch::Tensor& observed) const override;
  std::string name_of_estimate() const override { return "maximum likelihood"; }
  torch::Tensor summary(const torch::Tensor& observed) const override;
  int64_t summary_numbers() const override { return basis_.size(1); }
  torch::Tensor log_joint(const torch::Tensor& unknown,
                          const torch::Tensor& observed) const override;
  std::optional<torch::Tensor> log_evidence(
      const torch::Tensor& observed) const override;

  // Frames without noise, (N, 2) → (N, readings), by the simulator.
  torch::Tensor frames_of(const torch::Tensor& unknown) const;

 private:
  // -|observed - F|² / 2σ² as a function of T0, (curvature T0² - 2 slope T0)
  // away from `rest`, at each α of the grid: (N, G), curvature (G).
  struct Parabolas {
    torch::Tensor curvature, slope, rest;
  };
  Parabolas parabolas(const torch::Tensor& summary) const;
  int64_t readings() const;
  // What normal densities of all readings and the prior are multiplied by.
  double log_units() const;
  void find_basis();
  void tabulate();

  PlateInferenceOptions options_;
  UniformPrior prior_;
  physics::HeatPlateOptions plate_;
  int64_t steps_;         // of the simulator, from frame to frame
  torch::Tensor basis_;   // (readings, S), orthonormal columns
  torch::Tensor alphas_;  // (G), evenly spaced from edge to edge
  torch::Tensor a_, b_;   // (G, S): A and B in that basis
};

}  // namespace propagator::tasks
