#pragma once

#include <string>
#include <vector>

#include "propagator/pde/geometry/shape.h"

namespace propagator::pde {

// What is inside of straight sides between corners, in either order.
class Polygon : public Shape {
 public:
  // (x, y) of each corner. UsageError if there are fewer than three, if a side
  // has no length, or if sides cross or touch each other.
  explicit Polygon(std::vector<std::pair<double, double>> corners);

  torch::Tensor distance(const torch::Tensor& points) const override;
  EdgePoints edge(const torch::Tensor& unit) const override;
  double edge_size() const override;
  torch::Tensor corners() const override { return corners_; }

 private:
  torch::Tensor corners_, sides_;  // (n, 2), anticlockwise, and to the next
  torch::Tensor lengths_;          // (n)
};

}  // namespace propagator::pde
