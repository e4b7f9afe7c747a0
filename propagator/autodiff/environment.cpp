#include "propagator/autodiff/environment.h"

namespace propagator::autodiff {

std::vector<Jet> coordinates(const Jet& points) {
  std::vector<Jet> variables;
  for (const auto& rows : points.rows().unbind(-1)) {
    variables.emplace_back(rows, points.layout());
  }
  return variables;
}

}  // namespace propagator::autodiff
