#pragma once

#include <torch/types.h>

namespace propagator::pde {

// Points (N, S) of an edge, and the unit normals there, (N, S), which point out
// of what the edge bounds.
struct EdgePoints {
  torch::Tensor points, normals;
};

// A shape in S = 2 or 3 variables of space; all in float64 on the CPU.
class Shape {
 public:
  virtual ~Shape() = default;
  // (N): below 0 inside, above 0 outside, 0 on the edge, and near the edge the
  // distance from it, to first order.
  virtual torch::Tensor distance(const torch::Tensor& points) const = 0;
  // Points of the edge for points (N, S - 1) of the unit cube: as even along
  // its length, or over its area, as those are. NaN where none was found.
  virtual EdgePoints edge(const torch::Tensor& unit) const = 0;
  virtual double edge_size() const = 0;  // its length, or area
  // Of a shape in the plane, (n, 2); undefined: it has none.
  virtual torch::Tensor corners() const { return {}; }
  // Whether it goes on beyond the box of the domain, which then cuts it.
  virtual bool is_endless() const { return false; }
};

// For numbers (N) of [0, 1): which of some pieces, by their sizes, and how far
// along in that piece, of [0, 1) again.
struct Piece {
  torch::Tensor index, along;
};
Piece piece_at(const torch::Tensor& unit, const torch::Tensor& sizes);

}  // namespace propagator::pde
