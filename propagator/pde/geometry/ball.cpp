#include "propagator/pde/geometry/ball.h"

#include <torch/utils.h>

#include <numbers>

namespace propagator::pde {

using std::numbers::pi;
using torch::Tensor;

Ball::Ball(const std::vector<double>& centre, double radius)
    : centre_(torch::tensor(centre, torch::kFloat64)), radius_(radius) {}

Tensor Ball::distance(const Tensor& points) const {
  return (points - centre_).square().sum(1).sqrt() - radius_;
}

EdgePoints Ball::edge(const Tensor& unit) const {
  // Of a sphere, slices of one height have one area.
  const auto angle = unit.select(1, -1) * (2 * pi);
  std::vector<Tensor> normal{angle.cos(), angle.sin()};
  if (centre_.size(0) == 3) {
    const auto z = 1 - 2 * unit.select(1, 0);
    const auto across = (1 - z.square()).clamp_min(0).sqrt();
    normal = {across * normal[0], across * normal[1], z};
  }
  const auto normals = torch::stack(normal, 1);
  return {centre_ + radius_ * normals, normals};
}

double Ball::edge_size() const {
  return centre_.size(0) == 2 ? 2 * pi * radius_ : 4 * pi * radius_ * radius_;
}

}  // namespace propagator::pde
