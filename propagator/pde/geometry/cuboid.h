#pragma once

#include "propagator/pde/geometry/shape.h"
#include "propagator/pde/residual/collocation.h"

namespace propagator::pde {

// A rectangle along the axes, or a cuboid.
class Cuboid : public Shape {
 public:
  explicit Cuboid(const Box& box);

  torch::Tensor distance(const torch::Tensor& points) const override;
  EdgePoints edge(const torch::Tensor& unit) const override;
  double edge_size() const override;
  torch::Tensor corners() const override;

 private:
  torch::Tensor low_, high_;  // (S)
  torch::Tensor sizes_;       // of the faces (2 S): low and high of each axis
};

}  // namespace propagator::pde
