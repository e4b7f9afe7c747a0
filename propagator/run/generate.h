#pragma once

#include <filesystem>
#include <string>

#include "propagator/run/run.h"

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

}  // namespace propagator::run
