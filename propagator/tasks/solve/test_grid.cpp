#include "propagator/tasks/solve/test_grid.h"

#include <torch/utils.h>

#include <functional>
#include <numeric>

#include "propagator/pde/residual/collocation.h"

namespace propagator::tasks {

using torch::Tensor;

TestGrid TestGrid::centres(const pde::Problem& problem, int64_t per_axis) {
  TestGrid grid{.variables = problem.symbols.variables, .along = {}};
  for (const auto& [low, high] : problem.domain) {
    grid.along.push_back(
        pde::cell_centres({{low}, {high}}, per_axis).flatten());
  }
  return grid;
}

Tensor TestGrid::points() const { return pde::combinations(along); }

std::vector<int64_t> TestGrid::shape() const {
  std::vector<int64_t> sizes;
  for (const auto& places : along) sizes.push_back(places.size(0));
  return sizes;
}

report::Axis TestGrid::axis(int64_t variable) const {
  const auto& places = of(variable);
  return {.label = variables[static_cast<size_t>(variable)],
          .first = places[0].item<double>(),
          .last = places[-1].item<double>()};
}

TestGrid::Part TestGrid::every(const std::vector<int64_t>& strides) const {
  TestGrid part = *this;
  const auto sizes = shape();
  auto rows = torch::arange(std::accumulate(sizes.begin(), sizes.end(),
                                            int64_t{1}, std::multiplies<>()),
                            torch::kInt64)
                  .reshape(sizes);
  for (size_t v = 0; v < along.size(); ++v) {
    const auto variable = static_cast<int64_t>(v);
    rows = rows.slice(variable, 0, sizes[v], strides[v]);
    part.along[v] = along[v].slice(0, 0, sizes[v], strides[v]);
  }
  return {part, rows.flatten()};
}

}  // namespace propagator::tasks
