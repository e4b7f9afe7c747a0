#pragma once

#include <nlohmann/json.hpp>

#include "propagator/report/report.h"
#include "propagator/tasks/task.h"

namespace propagator::explain {

// Floating-point operations that an explanation may spend on the learned
// propagator: some seconds of the device.
double affordable_work(const torch::Device& device);

// What the model learned, in sections of a page: its propagator beside the
// true one, where it looks, its weights and encodings, what its outputs depend
// on. Returns the numbers, each part with its `verdict`.
nlohmann::json explain_model(tasks::Task& task, torch::nn::Module& model,
                             int64_t seed, double max_work,
                             report::Report& report);

}  // namespace propagator::explain
