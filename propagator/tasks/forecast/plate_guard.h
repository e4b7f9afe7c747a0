#pragma once

#include "propagator/physics/heat_plate.h"
#include "propagator/tasks/guarded.h"

namespace propagator::tasks {

// The guard of forecasts of simulated plates. Their diffusivities are drawn
// from a known range, and all temperatures lie between 0 and 1, to begin with
// and by the maximum principle ever after.
class PlateGuard {
 public:
  explicit PlateGuard(const physics::HeatPlateOptions& plate) : plate_(plate) {}

  const physics::HeatPlateOptions& plate() const { return plate_; }

  // `first`: the frames that the model has seen (N, V, R, C); `answer` (N, T,
  // R, C) continues them; `alpha` (N), undefined if the model does not take it.
  //
  // The residual is by how much frames differ from one step of the scheme from
  // the frame before, relative to the change in this step: 0 of a simulation, 1
  // of a plate that stands still.
  Guard guard(const torch::Tensor& first, const torch::Tensor& alpha,
              const torch::Tensor& answer) const;

 private:
  std::string outside(const torch::Tensor& first,
                      const torch::Tensor& alpha) const;
  std::optional<double> residual(const torch::Tensor& alpha,
                                 const torch::Tensor& frames) const;

  physics::HeatPlateOptions plate_;
};

}  // namespace propagator::tasks
