#include "propagator/pde/geometry/polygon.h"

#include <fmt/format.h>
#include <torch/utils.h>

#include <algorithm>

#include "propagator/core/error.h"

namespace propagator::pde {
namespace {

using torch::Tensor;
using Corner = std::pair<double, double>;

constexpr size_t kMostCorners = 1000;

// Twice the area of a triangle, positive if it goes around anticlockwise.
double turn(const Corner& a, const Corner& b, const Corner& c) {
  return (b.first - a.first) * (c.second - a.second) -
         (b.second - a.second) * (c.first - a.first);
}

bool is_between(const Corner& a, const Corner& b, const Corner& p) {
  return std::min(a.first, b.first) <= p.first &&
         p.first <= std::max(a.first, b.first) &&
         std::min(a.second, b.second) <= p.second &&
         p.second <= std::max(a.second, b.second);
}

// Whether two sides, from a to b and from c to d, have a point in common.
bool meet(const Corner& a, const Corner& b, const Corner& c, const Corner& d) {
  const double c_side = turn(a, b, c), d_side = turn(a, b, d);
  const double a_side = turn(c, d, a), b_side = turn(c, d, b);
  if (((c_side > 0 && d_side < 0) || (c_side < 0 && d_side > 0)) &&
      ((a_side > 0 && b_side < 0) || (a_side < 0 && b_side > 0))) {
    return true;
  }
  return (c_side == 0 && is_between(a, b, c)) ||
         (d_side == 0 && is_between(a, b, d)) ||
         (a_side == 0 && is_between(c, d, a)) ||
         (b_side == 0 && is_between(c, d, b));
}

void expect_polygon(const std::vector<Corner>& corners) {
  const size_t count = corners.size();
  if (count < 3) {
    throw UsageError(fmt::format("a polygon of {} corner{}, and it takes three",
                                 count, count == 1 ? "" : "s"),
                     "write polygon(x1, y1, x2, y2, x3, y3)");
  }
  if (count > kMostCorners) {
    throw UsageError(fmt::format("a polygon of {} corners, and {} is the most",
                                 count, kMostCorners));
  }
  const auto corner = [&](size_t n) { return corners[n % count]; };
  for (size_t n = 0; n < count; ++n) {
    if (corner(n) == corner(n + 1)) {
      throw UsageError(
          fmt::format("corner {} of the polygon is the same as the next",
                      n + 1),
          "leave one of them out");
    }
  }
  for (size_t n = 0; n < count; ++n) {
    // A side may fold back onto the one before it.
    const auto &a = corner(n), b = corner(n + 1), c = corner(n + 2);
    const bool folds =
        turn(a, b, c) == 0 && (is_between(a, b, c) || is_between(b, c, a));
    if (folds) {
      throw UsageError(
          fmt::format("the polygon goes back on itself at corner {}",
                      (n + 1) % count + 1),
          "list its corners one after the other, around it");
    }
    for (size_t m = n + 2; m < count; ++m) {
      if ((m + 1) % count == n) continue;  // neighbours share a corner
      if (!meet(a, b, corner(m), corner(m + 1))) continue;
      throw UsageError(fmt::format("sides {} and {} of the polygon cross or "
                                   "touch each other",
                                   n + 1, m + 1),
                       "list its corners one after the other, around it");
    }
  }
}

double area_of(const std::vector<Corner>& corners) {
  double twice = 0;
  for (size_t n = 1; n + 1 < corners.size(); ++n) {
    twice += turn(corners[0], corners[n], corners[n + 1]);
  }
  return twice / 2;
}

}  // namespace

Polygon::Polygon(std::vector<Corner> corners) {
  // Around to the first one again is how many write it.
  if (corners.size() > 3 && corners.front() == corners.back()) {
    corners.pop_back();
  }
  expect_polygon(corners);
  if (area_of(corners) < 0) std::ranges::reverse(corners);
  std::vector<double> numbers;
  for (const auto& [x, y] : corners) {
    numbers.push_back(x);
    numbers.push_back(y);
  }
  corners_ = torch::tensor(numbers, torch::kFloat64).view({-1, 2});
  sides_ = corners_.roll(-1, 0) - corners_;
  lengths_ = sides_.square().sum(1).sqrt();
}

Tensor Polygon::distance(const Tensor& points) const {
  const auto from = points.unsqueeze(1) - corners_;  // (N, n, 2)
  const auto along = ((from * sides_).sum(2) / lengths_.square()).clamp(0, 1);
  const auto nearest =
      (from - along.unsqueeze(2) * sides_).square().sum(2).amin(1).sqrt();
  // Inside if a ray to the right crosses an odd number of sides.
  const auto below = from.select(2, 1) < 0;  // the corner is above the point
  const auto rises = sides_.select(1, 1), runs = sides_.select(1, 0);
  const auto is_above_next = (from.select(2, 1) - rises) < 0;
  const auto crossing =
      runs * (from.select(2, 1) / rises) - from.select(2, 0) > 0;
  const auto crossed = (below != is_above_next) & crossing;
  const auto inside = crossed.sum(1) % 2 == 1;
  return torch::where(inside, -nearest, nearest);
}

EdgePoints Polygon::edge(const Tensor& unit) const {
  const auto [side, along] = piece_at(unit.select(1, 0), lengths_);
  const auto way = sides_.index_select(0, side);
  const auto outward = torch::stack({way.select(1, 1), -way.select(1, 0)}, 1);
  return {corners_.index_select(0, side) + along.unsqueeze(1) * way,
          outward / lengths_.index_select(0, side).unsqueeze(1)};
}

double Polygon::edge_size() const { return lengths_.sum().item<double>(); }

}  // namespace propagator::pde
