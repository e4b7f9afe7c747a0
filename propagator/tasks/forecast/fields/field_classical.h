#pragma once

#include "propagator/data/fields/field_dataset.h"
#include "propagator/data/fields/field_simulator.h"

namespace propagator::tasks {

// The solver that made a file's fields, as an answer beside a network's: it
// goes on from the last given frame with the parameters of each case, on one of
// several grids, each with half the intervals of the one before along each
// axis; the start is resampled to it, and the answer back
// (physics/fields/resampled.h).
class ClassicalField {
 public:
  // By what the note of a file says; it may know no solver, or one that cannot
  // go on from fields.
  ClassicalField(const nlohmann::json& note, const data::FieldLayout& layout);

  // Why there is none; empty if there is one.
  const std::string& missing() const { return missing_; }
  const std::string& name() const { return name_; }
  // The finest first, that of the simulator itself.
  const std::vector<std::vector<int64_t>>& grids() const { return grids_; }
  // Frames (N, nodes…, C) of cases with parameters (N, P) continued on that
  // grid: (N, steps, nodes…, C).
  torch::Tensor continued(size_t grid, const torch::Tensor& frame,
                          const torch::Tensor& parameters, int64_t steps) const;

 private:
  std::unique_ptr<data::FieldSimulator> simulator_;
  std::string name_, missing_;
  std::vector<int64_t> nodes_;
  std::vector<std::vector<int64_t>> grids_;
};

}  // namespace propagator::tasks
