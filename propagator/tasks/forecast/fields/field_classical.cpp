#include "propagator/tasks/forecast/fields/field_classical.h"

#include <fmt/ranges.h>

#include <cmath>

namespace propagator::tasks {
namespace {

using torch::Tensor;

constexpr int64_t kFewestNodes = 8;  // of a grid that is worth trying
constexpr double kSameStep = 1e-9;   // relative, of the time between frames

std::vector<int64_t> nodes_of(const data::FieldLayout& layout) {
  std::vector<int64_t> nodes;
  for (const auto& axis : layout.axes) nodes.push_back(axis.at.numel());
  return nodes;
}

double first_step(const data::FieldLayout& layout) {
  return (layout.times[1] - layout.times[0]).item<double>();
}

// Whether a file still has what its simulator made: channels, nodes and times
// may have been chosen from it since.
bool is_of(const data::FieldLayout& file, const data::FieldLayout& made) {
  if (file.times.numel() < 2 || made.times.numel() < 2) return false;
  const double step = first_step(file), own = first_step(made);
  return file.channels == made.channels && nodes_of(file) == nodes_of(made) &&
         file.parameters == made.parameters &&
         std::abs(step - own) <= kSameStep * std::abs(own);
}

std::vector<std::vector<int64_t>> grids_from(std::vector<int64_t> nodes,
                                             physics::FieldGrid grid) {
  std::vector<std::vector<int64_t>> grids;
  const auto enough = [](int64_t n) { return n >= kFewestNodes; };
  while (std::ranges::all_of(nodes, enough)) {
    grids.push_back(nodes);
    for (auto& n : nodes) n = physics::coarser(n, grid);
  }
  return grids;
}

}  // namespace

ClassicalField::ClassicalField(const nlohmann::json& note,
                               const data::FieldLayout& layout)
    : simulator_(data::simulator_of(note)), nodes_(nodes_of(layout)) {
  if (!simulator_ || !is_of(layout, simulator_->layout())) {
    missing_ = "the file's note names no solver of its fields";
    return;
  }
  name_ = note.at("simulator").get<std::string>();
  const auto& problem = simulator_->problem();
  auto finest = nodes_;
  for (auto& n : finest) n *= problem.computed_nodes();
  grids_ = grids_from(finest, problem.grid());
  if (!problem.continues()) {
    missing_ =
        fmt::format("the solver of {} cannot go on from fields on {} axes",
                    name_, nodes_.size());
  } else if (grids_.empty()) {
    missing_ = fmt::format("{} nodes are too few", fmt::join(nodes_, " x "));
  }
}

Tensor ClassicalField::continued(size_t grid, const Tensor& frame,
                                 const Tensor& parameters,
                                 int64_t steps) const {
  const auto& problem = simulator_->problem();
  const auto start =
      physics::resampled(frame, problem.grid(), grids_[grid]).contiguous();
  const auto later = problem.continued(start, parameters, steps);
  return physics::resampled(later.flatten(0, 1), problem.grid(), nodes_)
      .unflatten(0, {frame.size(0), steps});
}

}  // namespace propagator::tasks
