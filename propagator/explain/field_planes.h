#pragma once

#include "propagator/report/figure.h"
#include "propagator/tasks/explainable.h"

namespace propagator::explain {

// Fields over two or three axes as pictures: x to the right, y downwards, a
// third axis through a cell.

// (X, Y[, Z]) → (Y, X).
inline torch::Tensor plane_at(const torch::Tensor& field,
                              const std::vector<int64_t>& cell) {
  const auto plane = field.dim() == 3 ? field.select(2, cell[2]) : field;
  return plane.t();
}

inline report::HeatMaps plane_maps(const tasks::StepSubject& subject,
                                   const std::string& title) {
  return {.title = title,
          .x = subject.axes[0],
          .y = subject.axes[1],
          .panel_width = 190,
          .panel_height = 190};
}

// Of a cell among so many along each axis.
inline std::pair<double, double> place_of(const std::vector<int64_t>& cell,
                                          const std::vector<int64_t>& nodes,
                                          const tasks::StepSubject& subject) {
  const auto along = [&](size_t d) {
    const auto& axis = subject.axes[d];
    const auto last = static_cast<double>(std::max<int64_t>(nodes[d] - 1, 1));
    return axis.first +
           (axis.last - axis.first) * static_cast<double>(cell[d]) / last;
  };
  return {along(0), along(1)};
}

}  // namespace propagator::explain
