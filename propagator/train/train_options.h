#pragma once

#include <optional>
#include <vector>

#include "propagator/core/unused_option.h"
#include "propagator/train/broyden.h"
#include "propagator/train/lbfgs.h"
#include "propagator/train/levenberg_marquardt.h"
#include "propagator/train/optimizer.h"
#include "propagator/train/schedule.h"

namespace propagator::train {

// How a model is trained: how long, how often it is validated and saved, by
// which optimiser.
struct TrainOptions {
  int64_t epochs = 100;
  int64_t max_steps = 0;
  int64_t batch = 4;
  int64_t accumulate = 1;
  int64_t slices = 1;
  double clip = 0;
  int64_t validate_every = 0;
  int64_t validate_cases = 0;
  int64_t patience = 0;
  int64_t checkpoint_every = 0;
  double checkpoint_minutes = 5;
  int64_t keep_checkpoints = 2;
  int64_t log_every = 50;
  double time_limit = 0;
  double budget = 0;
  ScheduleOptions schedule;
  OptimizerOptions optimizer;
  LbfgsOptions lbfgs;
  BroydenOptions broyden;
  LevenbergMarquardtOptions levenberg_marquardt;

  // The sections `train`, `schedule`, `optimizer`, and one for each method
  // over all cases.
  void describe(config::Schema& schema);
  void validate() const;
  std::vector<config::UnusedOption> unused_options() const;

  // With so many training cases.
  int64_t steps_per_epoch(int64_t cases) const;
  int64_t total_steps(int64_t cases) const;
  // Those that the schedule rules: all, or the ones before a method over
  // all cases takes over. Nothing
  // where it takes the number of cases to know.
  std::optional<int64_t> scheduled_steps(std::optional<int64_t> cases) const;

 private:
  bool by_full_steps_alone() const {
    return is_full(optimizer.kind) && optimizer.adam_steps == 0;
  }
};

}  // namespace propagator::train
