#pragma once

#include <filesystem>
#include <string>

#include "propagator/run/run.h"
#include "propagator/tasks/generating.h"

namespace propagator::run {

struct GenerateOptions {
  int64_t count = 1000;  // new cases; of each row of `given`, if there is one
  int64_t seed = 0;
  std::filesystem::path given = {};  // a table of what the model is given
};

// Draws new cases of a run's model and writes them to a table, with what was
// given beside them. Returns what was written, in one line. UsageError if the
// run's task has nothing to draw, or more or less is given than it takes.
std::string generate(const Run& run, const GenerateOptions& options,
                     const std::filesystem::path& output);

struct TrajectoryOptions {
  int64_t count = 16;  // trajectories of each case
  int64_t seed = 0;
  int64_t cases = 1;                 // of the test, where no file is given
  std::filesystem::path given = {};  // first frames, as `predict` takes them
};

// Whether the run's task draws whole trajectories.
bool draws_trajectories(const Run& run);

// Draws trajectories of the run's model, or of an ensemble that it is the first
// of, and writes them as they come: `fields` (cases, count, frames, …), and
// what goes with them. Returns what was written, in one line. UsageError if
// there is nothing to draw; DataError if the file does not hold what the model
// takes.
std::string generate_trajectories(const Run& run, torch::nn::Module& model,
                                  const TrajectoryOptions& options,
                                  const std::filesystem::path& output);

// Whether the run's model writes text, in place of a table.
bool writes_text(const Run& run);

// Text that the run's model writes. UsageError if it writes none, or cannot
// take the prompt.
std::vector<std::string> generate_text(const Run& run,
                                       const tasks::TextRequest& request,
                                       int64_t seed);

}  // namespace propagator::run
