#include "propagator/pde/residual/problem_points.h"

#include <fmt/format.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>

#include "propagator/core/error.h"
#include "propagator/pde/residual/problem_box.h"

namespace propagator::pde {
namespace {

using torch::Tensor;

constexpr double kSpare = 1.1;  // more than the share asks for
constexpr int64_t kMostDrawn = int64_t{1} << 28;

int64_t power(int64_t base, size_t exponent) {
  int64_t all = 1;
  for (; exponent > 0; --exponent) all *= base;
  return all;
}

Box unit_cube(size_t dimensions) {
  return {std::vector<double>(dimensions, 0),
          std::vector<double>(dimensions, 1)};
}

// The first `count` rows that are kept of what `draw` gives of a number that
// grows. About `share` of them are.
template <class Draw, class Kept>
Tensor first_kept(int64_t count, double share, Draw&& draw, Kept&& kept) {
  auto drawn = static_cast<int64_t>(
      kSpare * static_cast<double>(count) / std::max(share, 1e-9) + 16);
  for (; drawn <= kMostDrawn; drawn *= 2) {
    draw(drawn);
    const Tensor rows = kept();
    if (rows.size(0) >= count) return rows.narrow(0, 0, count);
  }
  throw NumericalError(
      fmt::format("no {} points found among {} that were drawn", count,
                  kMostDrawn),
      "ask for fewer points, or for a larger domain");
}

Tensor space_of(const Problem& problem, const Tensor& points) {
  return points.index_select(1, torch::tensor(problem.space(), torch::kInt64));
}

// A column put in front of `variable`.
Tensor with_column(const Tensor& points, int64_t variable,
                   const Tensor& column) {
  return torch::cat({points.slice(1, 0, variable), column.unsqueeze(1),
                     points.slice(1, variable)},
                    1);
}

// On the face where a variable has this value, if the domain reaches it.
PointsOn on_face(const Problem& problem, const Condition& condition,
                 Sampling sampling, int64_t per_axis, int64_t seed,
                 const std::string& stream, int64_t round) {
  auto box = box_of(problem);
  const int64_t variable = condition.variable;
  box.low.erase(box.low.begin() + variable);
  box.high.erase(box.high.begin() + variable);
  const auto moved = [&](const Tensor& others) {
    return with_column(
        others, variable,
        torch::full({others.size(0)}, condition.at, torch::kFloat64));
  };
  if (!problem.region) {
    return {moved(sample(box, sampling, per_axis, seed, stream, round))};
  }
  const auto& region = *problem.region;
  const auto space = problem.space();
  const bool is_time = variable == problem.time();
  const auto axis = std::ranges::find(space, variable) - space.begin();
  const bool high =
      condition.at == problem.domain[static_cast<size_t>(variable)].high;
  Tensor points;
  const auto kept = [&] {
    const auto places = space_of(problem, points);
    return (is_time ? region.contains(places)
                    : region.touches(places, axis, high))
        .nonzero()
        .flatten();
  };
  if (sampling == Sampling::kGrid) {
    points = moved(sample(box, sampling, per_axis, seed, stream, round));
    return {points.index_select(0, kept())};
  }
  const double share =
      is_time ? region.share() : region.share_of_face(axis, high);
  const auto rows = first_kept(
      power(per_axis, box.low.size()), share,
      [&](int64_t count) {
        points = moved(sample_count(box, sampling, count, seed, stream, round));
      },
      kept);
  return {points.index_select(0, rows)};
}

PointsOn on_edge(const Problem& problem, const Condition& condition,
                 Sampling sampling, int64_t per_axis, int64_t seed,
                 const std::string& stream, int64_t round) {
  const auto& region = *problem.region;
  const int64_t time = problem.time();
  const auto ends = static_cast<int64_t>(problem.space().size()) - 1;
  const auto dimensions = problem.domain.size() - 1;  // with time
  if (sampling == Sampling::kGrid) sampling = Sampling::kSobol;
  Tensor unit;
  Region::Part part;
  const auto kept = first_kept(
      power(per_axis, dimensions), region.share_of_part(condition.shape),
      [&](int64_t count) {
        unit = sample_count(unit_cube(dimensions), sampling, count, seed,
                            stream, round);
      },
      [&] {
        part = region.part(condition.shape, unit.slice(1, 0, ends));
        return part.rows;
      });
  const int64_t count = kept.size(0);
  auto points = part.edge.points.narrow(0, 0, count);
  const auto normals = part.edge.normals.narrow(0, 0, count);
  if (time < 0) return {points, normals};
  const auto& [low, high] = problem.domain[static_cast<size_t>(time)];
  const auto share = unit.select(1, ends).index_select(0, kept);
  return {with_column(points, time, low + share * (high - low)), normals};
}

}  // namespace

Tensor PointsOn::variables() const {
  return normals.defined() ? torch::cat({points, normals}, 1) : points;
}

Tensor rows_inside(const Problem& problem, const Tensor& points, double slack) {
  const auto at = points.to(torch::kCPU, torch::kFloat64);
  return problem.region->contains(space_of(problem, at), slack)
      .nonzero()
      .flatten();
}

Tensor points_inside(const Problem& problem, Sampling sampling,
                     int64_t per_axis, int64_t seed, const std::string& stream,
                     int64_t round) {
  const auto box = box_of(problem);
  if (!problem.region || sampling == Sampling::kGrid) {
    const auto all = sample(box, sampling, per_axis, seed, stream, round);
    return problem.region ? all.index_select(0, rows_inside(problem, all))
                          : all;
  }
  Tensor points;
  const auto rows = first_kept(
      power(per_axis, problem.domain.size()), problem.region->share(),
      [&](int64_t count) {
        points = sample_count(box, sampling, count, seed, stream, round);
      },
      [&] { return rows_inside(problem, points); });
  return points.index_select(0, rows);
}

Tensor centres_inside(const Problem& problem, int64_t per_axis) {
  const auto all = cell_centres(box_of(problem), per_axis);
  return problem.region ? all.index_select(0, rows_inside(problem, all)) : all;
}

PointsOn points_on(const Problem& problem, const Condition& condition,
                   Sampling sampling, int64_t per_axis, int64_t seed,
                   const std::string& stream, int64_t round) {
  const auto of = condition.is_on_edge() ? on_edge : on_face;
  return of(problem, condition, sampling, per_axis, seed, stream, round);
}

}  // namespace propagator::pde
