#pragma once

#include "propagator/run/run.h"

namespace propagator::run {

// What a task measured of a run's best weights on validation cases
// (tasks/calibrated.h), in the run's folder: calibration.safetensors. It says
// of which step the weights are.

// Measures and writes it, where the task has anything to measure.
void calibrate_best(const Experiment& experiment, torch::nn::Module& model,
                    const train::RunDirectory& run, int64_t best_step);

// Lets the task use it, if it is there and of the best weights of this
// checkpoint. DataError if it is damaged.
void use_calibration_of(const train::RunDirectory& run,
                        const std::filesystem::path& checkpoint,
                        tasks::Task& task);

}  // namespace propagator::run
