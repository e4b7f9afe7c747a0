#include "propagator/pde/geometry/cuboid.h"

#include <torch/utils.h>

namespace propagator::pde {

using torch::Tensor;

Cuboid::Cuboid(const Box& box)
    : low_(torch::tensor(box.low, torch::kFloat64)),
      high_(torch::tensor(box.high, torch::kFloat64)) {
  const auto lengths = high_ - low_;
  sizes_ = (lengths.prod() / lengths).repeat_interleave(2);
}

Tensor Cuboid::distance(const Tensor& points) const {
  return torch::maximum(low_ - points, points - high_).amax(1);
}

EdgePoints Cuboid::edge(const Tensor& unit) const {
  const int64_t axes = low_.size(0);
  const auto [face, along] = piece_at(unit.select(1, 0), sizes_);
  auto shares = torch::zeros({unit.size(0), axes}, torch::kFloat64);
  auto normals = torch::zeros_like(shares);
  for (int64_t n = 0; n < 2 * axes; ++n) {
    const auto rows = (face == n).nonzero().flatten();
    const int64_t axis = n / 2;
    const double end = n % 2 == 0 ? 0 : 1;
    for (int64_t other = 0, k = 0; other < axes; ++other) {
      if (other == axis) continue;
      const auto place = k++ == 0 ? along : unit.select(1, 1);
      shares.select(1, other).index_copy_(0, rows, place.index_select(0, rows));
    }
    shares.select(1, axis).index_fill_(0, rows, end);
    normals.select(1, axis).index_fill_(0, rows, 2 * end - 1);
  }
  // Exactly on either end.
  return {low_ * (1 - shares) + high_ * shares, normals};
}

double Cuboid::edge_size() const { return sizes_.sum().item<double>(); }

torch::Tensor Cuboid::corners() const {
  if (low_.size(0) != 2) return {};
  const auto ends = torch::stack({low_, high_});
  const auto x = ends.select(1, 0), y = ends.select(1, 1);
  return torch::stack({torch::cat({x, x}), torch::cat({y, y.flip(0)})}, 1);
}

}  // namespace propagator::pde
