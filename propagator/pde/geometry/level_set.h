#pragma once

#include <functional>

#include "propagator/pde/geometry/shape.h"
#include "propagator/pde/residual/collocation.h"

namespace propagator::pde {

// Where f < 0, within a box. Its edge is found once: along the lines of a fine
// grid and of its diagonals by bisection, which gives segments, or triangles,
// between crossings; a point of these goes on to f = 0 along the gradient, by
// Newton's steps. What is finer than the grid (1/200 of each length of the box,
// 1/40 in three variables) may be missed.
class LevelSet : public Shape {
 public:
  // Both of points (N, S): f is (N), its gradient (N, S).
  using Formula = std::function<torch::Tensor(const torch::Tensor&)>;
  LevelSet(Formula f, Formula gradient, const Box& box);

  torch::Tensor distance(const torch::Tensor& points) const override;
  EdgePoints edge(const torch::Tensor& unit) const override;
  double edge_size() const override;
  bool is_endless() const override { return true; }

 private:
  // Points (N, S) moved onto f = 0, and the gradients there.
  EdgePoints settled(torch::Tensor points) const;

  Formula f_, gradient_;
  double length_;          // of the box's diagonal
  torch::Tensor corners_;  // (M, S, S) of segments or triangles
  torch::Tensor sizes_;    // (M)
};

}  // namespace propagator::pde
