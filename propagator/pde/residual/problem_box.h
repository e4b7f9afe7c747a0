#pragma once

#include "propagator/pde/residual/collocation.h"
#include "propagator/pde/text/problem.h"

namespace propagator::pde {

// The domain of a problem, for its points.
inline pde::Box box_of(const pde::Problem& problem) {
  pde::Box box;
  for (const auto& [low, high] : problem.domain) {
    box.low.push_back(low);
    box.high.push_back(high);
  }
  return box;
}

}  // namespace propagator::pde
