#pragma once

#include "propagator/autodiff/problem.h"
#include "propagator/data/collocation.h"

namespace propagator::tasks {

// The domain of a problem, for its points.
inline data::Box box_of(const autodiff::Problem& problem) {
  data::Box box;
  for (const auto& [low, high] : problem.domain) {
    box.low.push_back(low);
    box.high.push_back(high);
  }
  return box;
}

}  // namespace propagator::tasks
