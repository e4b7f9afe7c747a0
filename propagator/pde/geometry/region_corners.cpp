#include <torch/utils.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "propagator/pde/geometry/region.h"

// Corners that point into a region.

namespace propagator::pde {
namespace {

using torch::Tensor;

constexpr double kPi = std::numbers::pi;

// Around a corner, beside the box's diagonal, and how many directions there.
constexpr double kAround = 1e-5;
constexpr int64_t kDirections = 720;
constexpr int kHalvingsOfAngle = 40;
// A corner is no straight edge and no slit, by this angle.
constexpr double kLeast = 0.02;
// Two that are one, beside the diagonal.
constexpr double kSameCorner = 1e-9;

}  // namespace

std::optional<Region::InnerCorner> Region::inner_corner_at(double x,
                                                           double y) const {
  const auto is_in = [&](const Tensor& angles) {
    const double radius = kAround * diagonal_;
    return contains(torch::stack(
        {angles.cos() * radius + x, angles.sin() * radius + y}, 1));
  };
  const double step = 2 * kPi / kDirections;
  const auto angles =
      (torch::arange(kDirections, torch::kFloat64) + 0.5) * step;
  const auto inside = is_in(angles);
  // Where a turn enters the region, and where it leaves it.
  const auto next = inside.roll(-1);
  const auto enters = (next & inside.logical_not()).nonzero().flatten();
  const auto leaves = (inside & next.logical_not()).nonzero().flatten();
  if (enters.numel() != 1 || leaves.numel() != 1) return {};
  auto low = torch::cat(
      {angles.index_select(0, enters), angles.index_select(0, leaves)});
  auto high = low + step;
  const auto before = is_in(low);
  for (int n = 0; n < kHalvingsOfAngle; ++n) {
    const auto middle = (low + high) / 2;
    const auto same = is_in(middle) == before;
    low = torch::where(same, middle, low);
    high = torch::where(same, high, middle);
  }
  const double begin = low[0].item<double>();
  double angle = low[1].item<double>() - begin;
  if (angle < 0) angle += 2 * kPi;
  if (angle < kPi + kLeast || angle > 2 * kPi - kLeast) return {};
  return InnerCorner{x, y, angle, begin + angle / 2};
}

std::vector<Region::InnerCorner> Region::inner_corners() const {
  std::vector<InnerCorner> all;
  if (dimensions() != 2) return all;
  for (const auto& [name, shape] : shapes_) {
    const auto corners = shape->corners();
    if (!corners.defined()) continue;
    const auto places = corners.accessor<double, 2>();
    for (int64_t n = 0; n < corners.size(0); ++n) {
      const auto corner = inner_corner_at(places[n][0], places[n][1]);
      const bool is_new =
          corner && std::ranges::none_of(all, [&](const InnerCorner& known) {
            return std::hypot(known.x - corner->x, known.y - corner->y) <
                   kSameCorner * diagonal_;
          });
      if (is_new) all.push_back(*corner);
    }
  }
  return all;
}

}  // namespace propagator::pde
