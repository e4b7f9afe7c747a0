#include "propagator/tasks/solve/solve_plane.h"

#include <fmt/format.h>
#include <torch/utils.h>

#include <algorithm>

namespace propagator::tasks {

std::optional<SolvePlane> SolvePlane::of(const TestGrid& grid, int64_t time,
                                         int64_t parameter, int64_t most) {
  SolvePlane plane(grid, time);
  const auto variables = std::ssize(grid.along);
  if (variables == 2) {
    plane.across_ = std::max<int64_t>(0, time);
    plane.up_ = 1 - plane.across_;
    return plane;
  }
  if (variables != 3) return std::nullopt;
  plane.held_ = parameter >= 0 ? parameter : time < 0 ? 2 : time;
  plane.up_ = plane.held_ == 2 ? 1 : 2;
  plane.across_ = plane.held_ == 0 ? 1 : 0;
  if (plane.up_ == time) std::swap(plane.up_, plane.across_);
  const int64_t last = grid.size(plane.held_) - 1;
  const int64_t count = std::min(most, last + 1);
  for (int64_t n = 0; n < count; ++n) {
    plane.places_.push_back(n * last / std::max<int64_t>(1, count - 1));
  }
  return plane;
}

torch::Tensor SolvePlane::pictures(const torch::Tensor& values) const {
  auto shape = grid_.shape();
  shape.insert(shape.begin(), -1);
  const auto all = values.to(torch::kFloat64).t().reshape(shape);
  if (held_ < 0) return all.permute({0, up_ + 1, across_ + 1}).flip(1);
  return all.permute({0, held_ + 1, up_ + 1, across_ + 1})
      .index_select(1, torch::tensor(places_))
      .flatten(0, 1)
      .flip(1);
}

std::vector<std::string> SolvePlane::held_at() const {
  if (held_ < 0) return {""};
  std::vector<std::string> texts;
  for (const double value : held_values()) {
    texts.push_back(fmt::format(
        "{} = {:.3g}", grid_.variables[static_cast<size_t>(held_)], value));
  }
  return texts;
}

std::vector<double> SolvePlane::held_values() const {
  if (held_ < 0) return {0};
  return report::numbers(
      grid_.of(held_).index_select(0, torch::tensor(places_)));
}

std::vector<torch::Tensor> SolvePlane::near(const torch::Tensor& points,
                                            double reach) const {
  const auto on_plane =
      torch::stack({points.select(1, across_), points.select(1, up_)}, 1);
  if (held_ < 0) return {on_plane};
  std::vector<torch::Tensor> parts;
  for (const double value : held_values()) {
    const auto is_near = (points.select(1, held_) - value).abs() <= reach;
    parts.push_back(on_plane.index_select(0, is_near.nonzero().flatten()));
  }
  return parts;
}

// Lengths are drawn alike in both directions, unless that makes a strip.
double SolvePlane::aspect() const {
  if (across_ == time_) return 1;
  const auto length = [this](int64_t variable) {
    const auto axis = grid_.axis(variable);
    return axis.last - axis.first;
  };
  return std::clamp(length(up_) / length(across_), 1.0 / 3, 3.0);
}

}  // namespace propagator::tasks
