#pragma once

#include <functional>

#include "propagator/data/plate_dataset.h"
#include "propagator/tasks/forecast/error_modes.h"
#include "propagator/tasks/surrogate.h"

namespace propagator::tasks {

// What validation cases say of a forecaster's deviations: by which factor they
// are too small at each frame, and how errors go together.
struct Spread {
  torch::Tensor scale;              // (T)
  double overall = 1;               // one factor for all frames
  std::vector<ErrorModes> members;  // of each network

  NamedTensors to_tensors() const;
  // DataError unless they are of one network and these fields.
  static Spread from_tensors(const NamedTensors& saved,
                             const models::FieldShape& shape);
};

// How trajectories are drawn.
struct DrawOptions {
  int64_t draws = 32;  // of each case
  int64_t batch = 16;  // trajectories at a time
  RandomStream stream{0, "test"};
  int64_t first_case = 0;  // whose number the random numbers depend on
};

// Whole trajectories before any scale: (B, draws, T, R, C). Draw k of a case is
// from member k modulo their number, and the same whatever `draws` is.
// `progress`: frames done of one
// trajectory, times trajectories.
torch::Tensor draw_raw(models::Forecaster& model,
                       const std::vector<ErrorModes>& modes,
                       const torch::Tensor& first, const torch::Tensor& alpha,
                       const DrawOptions& options,
                       const std::function<void(int64_t)>& progress = {});

// The same as one is to see them: scaled about the mean forecast.
torch::Tensor draw_trajectories(
    models::Forecaster& model, const Spread& spread, const torch::Tensor& first,
    const torch::Tensor& alpha, const DrawOptions& options,
    const std::function<void(int64_t)>& progress = {});

// What is forecast of a batch, before any scale: the mean (B, T, R, C), the
// deviation of each node, and that of the mean over all nodes (B, T), with the
// correlations of errors and, where that is known in closed form, without.
// Deviations are 0 in frames that are given. An autoregressive model's are
// those of drawn trajectories about the mean.
struct Predictive {
  torch::Tensor mean, deviation, average, independent;
};
Predictive predictive(models::Forecaster& model,
                      const std::vector<ErrorModes>& modes,
                      const torch::Tensor& first, const torch::Tensor& alpha,
                      const DrawOptions& options);

// Errors in units of what one network predicts for them, for frames that are
// not given; else 0. An autoregressive one is given the true frames before.
torch::Tensor standardised_errors(models::Forecaster& member,
                                  const data::PlateBatch& batch);

}  // namespace propagator::tasks
