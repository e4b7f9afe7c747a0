#pragma once

#include <nlohmann/json.hpp>
#include <optional>

#include "propagator/report/report.h"
#include "propagator/tasks/task.h"

namespace propagator::explain {

struct LearnedStep;

// Floating-point operations that an explanation may spend on the learned
// propagator: some seconds of the device.
double affordable_work(const torch::Device& device);

// What can be asked for by itself.
enum class Part { kPropagator, kAttention, kLeaks };

struct ExplainOptions {
  double max_work = 0;  // operations to spend on the learned propagator
  // Where a single cell is shown: its place along each axis of the data; empty:
  // as the explanation chooses.
  std::vector<int64_t> cell = {};
  std::optional<Part> only = {};  // none: all there is
  // If it was computed already, with the same work and cell.
  const LearnedStep* step = nullptr;
};

// What the model learned, in sections of a page: its propagator beside the
// true one, where it looks, its weights and encodings, what its outputs depend
// on. Returns the numbers, each part with its `verdict`. UsageError if the
// model has not the part that is asked for, or its grid not the cell.
nlohmann::json explain_model(tasks::Task& task, torch::nn::Module& model,
                             int64_t seed, const ExplainOptions& options,
                             report::Report& report);

}  // namespace propagator::explain

namespace propagator::config {

template <>
struct Names<explain::Part> {
  using enum explain::Part;
  static constexpr std::pair<explain::Part, const char*> all[] = {
      {kPropagator, "propagator"},
      {kAttention, "attention"},
      {kLeaks, "leaks"}};
};

}  // namespace propagator::config
