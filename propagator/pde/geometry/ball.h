#pragma once

#include <vector>

#include "propagator/pde/geometry/shape.h"

namespace propagator::pde {

// |p - c| < r: a disk in two variables, a ball in three.
class Ball : public Shape {
 public:
  Ball(const std::vector<double>& centre, double radius);

  torch::Tensor distance(const torch::Tensor& points) const override;
  EdgePoints edge(const torch::Tensor& unit) const override;
  double edge_size() const override;

 private:
  torch::Tensor centre_;  // (S)
  double radius_;
};

}  // namespace propagator::pde
