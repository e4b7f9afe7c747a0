#pragma once

#include "propagator/run/experiment.h"

namespace propagator::run {

// What `check` says of an experiment that could be trained.
struct Checked {
  std::vector<std::string> found, warnings;
  int64_t parameters;          // numbers of the model
  int64_t trained_parameters;  // of these, fewer in a fine-tuning
};
// ConfigError, with the place, if it could not.
Checked checked(const Experiment& experiment);

// The same of a problem in a text of which nothing is known: it may say
// `task: solve` and its problem, on at most `kMostVariables` variables, and no
// more, and no file is read. ConfigError says what is wrong.
inline constexpr int64_t kMostVariables = 4;
Checked checked_problem(const std::string& text);

}  // namespace propagator::run
