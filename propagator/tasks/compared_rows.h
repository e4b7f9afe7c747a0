#pragma once

#include <span>
#include <string>
#include <vector>

#include "propagator/tasks/drawing.h"

namespace propagator::tasks {

// Rows whose maps are of one subject, to be shown beside one another.
struct ComparedRows {
  std::string first;  // row
  std::string name;   // the words that all begin with: "wave"
  std::vector<report::ComparedMaps> rows = {};
};

// Those of rows that have maps, in their order. Names differ.
std::vector<ComparedRows> compared_rows(std::span<const ReproducedRow> rows);

}  // namespace propagator::tasks
