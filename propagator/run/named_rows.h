#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace propagator::run {

// A configuration to reproduce.
struct Row {
  std::string name;  // "forecast/base-block"
  std::filesystem::path file;
};

// The rows that are asked for, each once and all of one task: by their names;
// all that begin so ("locate/lecture-*"), with a band or without; or of a task
// ("locate") those that have a band, while the log names the others.
// UsageError if there are none, or of two tasks: figures have rows of one.
std::vector<Row> find_rows(const std::vector<std::string>& asked);

}  // namespace propagator::run
