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

// Whether the run's model writes text, in place of a table.
bool writes_text(const Run& run);

// Text that the run's model writes. UsageError if it writes none, or cannot
// take the prompt.
std::vector<std::string> generate_text(const Run& run,
                                       const tasks::TextRequest& request,
                                       int64_t seed);

}  // namespace propagator::run
