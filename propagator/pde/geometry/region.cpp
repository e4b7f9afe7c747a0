#include "propagator/pde/geometry/region.h"

#include <torch/utils.h>

#include <cmath>

namespace propagator::pde {
namespace {

using torch::Tensor;

// Points by which shares are found: of a region, and, if none is inside, once
// more, and of an edge or a face.
constexpr int64_t kLooks = 1 << 14, kMoreLooks = 1 << 18, kEdgeLooks = 1 << 12;
// Beside the box's diagonal: to either side of an edge, and what is on it.
constexpr double kAside = 1e-8, kOnEdge = 1e-7;
// Of a face that is touched: less is where a round edge comes near it.
constexpr double kLeastTouched = 1e-3;

Tensor some_points(const Box& box, int64_t count) {
  return sample_count(box, Sampling::kSobol, count, /*seed=*/0, "region");
}

Tensor some_of_unit(int64_t dimensions, int64_t count) {
  const auto ends = static_cast<size_t>(dimensions);
  return some_points(
      {std::vector<double>(ends, 0), std::vector<double>(ends, 1)}, count);
}

double share_of(const Tensor& which) {
  return which.to(torch::kFloat64).mean().item<double>();
}

}  // namespace

Region::Region(Box box, std::vector<Named> shapes, Combination inside)
    : box_(std::move(box)),
      cuboid_(box_),
      shapes_(std::move(shapes)),
      inside_(std::move(inside)) {
  double square = 0;
  for (size_t n = 0; n < box_.low.size(); ++n) {
    square += std::pow(box_.high[n] - box_.low[n], 2);
  }
  diagonal_ = std::sqrt(square);
  for (const int64_t looks : {kLooks, kMoreLooks}) {
    if (share_ > 0) break;
    share_ = share_of(contains(some_points(box_, looks)));
  }
  const auto unit = some_of_unit(dimensions() - 1, kEdgeLooks);
  for (int64_t n = 0; n < std::ssize(shapes_); ++n) {
    const auto kept = part(n, unit).rows.size(0);
    part_shares_.push_back(static_cast<double>(kept) / kEdgeLooks);
  }
}

Tensor Region::combined(const Combination& one, const Tensor& points) const {
  const auto of = [&](size_t n) { return combined(one.parts.at(n), points); };
  switch (one.kind) {
    case Combination::Kind::kShape:
      return shapes_.at(static_cast<size_t>(one.shape)).shape->distance(points);
    case Combination::Kind::kUnion:
      return torch::minimum(of(0), of(1));
    case Combination::Kind::kDifference:
      return torch::maximum(of(0), -of(1));
    case Combination::Kind::kIntersection:
      return torch::maximum(of(0), of(1));
    case Combination::Kind::kBox:
      break;
  }
  return cuboid_.distance(points);
}

Tensor Region::distance(const Tensor& points) const {
  return torch::maximum(combined(inside_, points), cuboid_.distance(points));
}

Tensor Region::contains(const Tensor& points, double slack) const {
  const auto distances = distance(points);
  return slack > 0 ? distances <= slack * diagonal_ : distances < 0;
}

Tensor Region::is_inside(const Tensor& points, bool clipped) const {
  return clipped ? contains(points) : combined(inside_, points) < 0;
}

Tensor Region::sides(const EdgePoints& edge, bool clipped) const {
  const auto aside = edge.normals * (kAside * diagonal_);
  const auto found = is_inside(edge.points - aside, clipped).to(torch::kInt64) -
                     is_inside(edge.points + aside, clipped).to(torch::kInt64);
  return found.masked_fill(torch::isnan(edge.points).any(1), 0);
}

Region::Part Region::part(int64_t shape, const Tensor& unit) const {
  const auto edge = shapes_.at(static_cast<size_t>(shape)).shape->edge(unit);
  const auto side = sides(edge, /*clipped=*/true);
  const auto rows = side.nonzero().flatten();
  const auto out = side.index_select(0, rows).unsqueeze(1);
  return {{edge.points.index_select(0, rows),
           edge.normals.index_select(0, rows) * out},
          rows};
}

double Region::size_of_part(int64_t shape) const {
  return share_of_part(shape) *
         shapes_.at(static_cast<size_t>(shape)).shape->edge_size();
}

Tensor Region::on_edges(const Tensor& points, int64_t shapes) const {
  auto found = torch::zeros({points.size(0)}, torch::kBool);
  for (int64_t n = 0; n < shapes; ++n) {
    const auto& shape = *shapes_.at(static_cast<size_t>(n)).shape;
    found = found | (shape.distance(points).abs() <= kOnEdge * diagonal_);
  }
  return found;
}

bool Region::is_covered(int64_t shape) const {
  const auto points =
      part(shape, some_of_unit(dimensions() - 1, kEdgeLooks)).edge.points;
  return on_edges(points, shape).all().item<bool>();
}

Tensor Region::touches(const Tensor& points, int64_t axis, bool high,
                       bool uncovered) const {
  auto within = points.clone();
  within.select(1, axis).sub_((high ? 1 : -1) * kAside * diagonal_);
  const auto touched = contains(within);
  if (!uncovered) return touched;
  return touched & on_edges(points, std::ssize(shapes_)).logical_not();
}

double Region::share_of_face(int64_t axis, bool high, bool uncovered) const {
  auto points = some_points(box_, kEdgeLooks);
  const auto& ends = high ? box_.high : box_.low;
  points.select(1, axis).fill_(ends[static_cast<size_t>(axis)]);
  const double share = share_of(touches(points, axis, high, uncovered));
  return share < kLeastTouched ? 0 : share;
}

std::optional<Region::Beyond> Region::beyond_box() const {
  const auto unit = some_of_unit(dimensions() - 1, kEdgeLooks);
  std::optional<Beyond> most;
  for (int64_t n = 0; n < std::ssize(shapes_); ++n) {
    const auto& shape = *shapes_[static_cast<size_t>(n)].shape;
    if (shape.is_endless()) continue;
    const auto edge = shape.edge(unit);
    const auto rows = sides(edge, /*clipped=*/false).nonzero().flatten();
    const auto points = edge.points.index_select(0, rows);
    if (points.size(0) == 0) continue;
    for (int64_t axis = 0; axis < dimensions(); ++axis) {
      const auto at = static_cast<size_t>(axis);
      const double low = points.select(1, axis).min().item<double>();
      const double high = points.select(1, axis).max().item<double>();
      const double under = box_.low[at] - low, over = high - box_.high[at];
      const double by = std::max(under, over);
      if (by <= kOnEdge * diagonal_ || (most && by <= most->by)) continue;
      most = {n, axis, under > over ? low : high, by};
    }
  }
  return most;
}

}  // namespace propagator::pde
