#pragma once

#include <string>

#include "propagator/pde/residual/collocation.h"
#include "propagator/pde/text/problem.h"

namespace propagator::pde {

// Points of a problem's domain, (N, D) in float64: of its box as `sample` has
// them, per_axis^D; of shapes as many that are inside, the first of a longer
// sequence, or those nodes of a grid that are inside.
torch::Tensor points_inside(const Problem& problem, Sampling sampling,
                            int64_t per_axis, int64_t seed,
                            const std::string& stream, int64_t round = 0);
// Those of cell_centres that are inside.
torch::Tensor centres_inside(const Problem& problem, int64_t per_axis);
// The rows of points (N, D) that are inside, among shapes; `slack` as
// Region::contains has it.
torch::Tensor rows_inside(const Problem& problem, const torch::Tensor& points,
                          double slack = 0);

// Where a condition is asked for: points (N, D) and, on a shape's edge, the
// normals (N, S) by the variables of space, which point out of the domain.
struct PointsOn {
  torch::Tensor points, normals = {};

  // The variables of a formula on an edge: the points and the normals behind
  // them, (N, D + S); elsewhere the points.
  torch::Tensor variables() const;
};
// On its face, or its part of the edge: per_axis^(D - 1) points, chosen as
// above. On the edge of shapes a grid is a Sobol sequence.
PointsOn points_on(const Problem& problem, const Condition& condition,
                   Sampling sampling, int64_t per_axis, int64_t seed,
                   const std::string& stream, int64_t round = 0);

}  // namespace propagator::pde
