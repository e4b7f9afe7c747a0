#pragma once

#include <vector>

#include "propagator/pde/text/problem.h"
#include "propagator/report/figure.h"

namespace propagator::tasks {

// The points at which fields are tested and drawn: places along each of the
// variables, and all combinations of them, those of the last changing fastest.
struct TestGrid {
  std::vector<std::string> variables;
  std::vector<torch::Tensor> along;  // (n) each, in float64 and rising

  // The centres of `per_axis` cells along each variable.
  static TestGrid centres(const pde::Problem& problem, int64_t per_axis);

  torch::Tensor points() const;  // (N, D)
  std::vector<int64_t> shape() const;
  int64_t size(int64_t variable) const { return of(variable).size(0); }
  const torch::Tensor& of(int64_t variable) const {
    return along[static_cast<size_t>(variable)];
  }
  report::Axis axis(int64_t variable) const;

  // Every so manyth place along each variable, from the first one on.
  struct Part;
  Part every(const std::vector<int64_t>& strides) const;
};

struct TestGrid::Part {
  TestGrid grid;
  torch::Tensor rows;  // of its points, among those of the whole grid
};

}  // namespace propagator::tasks
