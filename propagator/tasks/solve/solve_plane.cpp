#include "propagator/tasks/solve/solve_plane.h"

#include <fmt/format.h>

#include <algorithm>

namespace propagator::tasks {

report::Axis centres_along(const pde::Problem& problem, int64_t variable,
                           int64_t per_axis) {
  const auto n = static_cast<size_t>(variable);
  const auto& [low, high] = problem.domain[n];
  const double half = (high - low) / static_cast<double>(2 * per_axis);
  return {problem.symbols.variables[n], low + half, high - half};
}

std::optional<SolvePlane> SolvePlane::of(const pde::Problem& problem,
                                         int64_t per_axis) {
  SolvePlane plane(problem, per_axis);
  const auto variables = std::ssize(problem.domain);
  if (variables == 2) {
    plane.across_ = std::max<int64_t>(0, problem.time());
    plane.up_ = 1 - plane.across_;
    return plane;
  }
  if (variables != 3) return std::nullopt;
  plane.held_ = problem.time() < 0 ? 2 : problem.time();
  plane.up_ = plane.held_ == 2 ? 1 : 2;
  plane.across_ = plane.held_ == 0 ? 1 : 0;
  const int64_t last = per_axis - 1;
  plane.cells_ = {0, last / 2, last};
  return plane;
}

torch::Tensor SolvePlane::pictures(const torch::Tensor& values) const {
  const auto all = values.to(torch::kFloat64).t();  // (K, N)
  if (held_ < 0) {
    return all.reshape({-1, per_axis_, per_axis_})
        .permute({0, up_ + 1, across_ + 1})
        .flip(1);
  }
  return all.reshape({-1, per_axis_, per_axis_, per_axis_})
      .permute({0, held_ + 1, up_ + 1, across_ + 1})
      .index_select(1, torch::tensor(cells_))
      .flatten(0, 1)
      .flip(1);
}

std::vector<std::string> SolvePlane::held_at() const {
  if (held_ < 0) return {""};
  const auto along = centres_along(*problem_, held_, per_axis_);
  std::vector<std::string> texts;
  for (const int64_t cell : cells_) {
    const double share =
        static_cast<double>(cell) / static_cast<double>(per_axis_ - 1);
    texts.push_back(
        fmt::format("{} = {:.3g}", along.label,
                    along.first + share * (along.last - along.first)));
  }
  return texts;
}

// Lengths are drawn alike in both directions, unless that makes a strip.
double SolvePlane::aspect() const {
  if (across_ == problem_->time()) return 1;
  const auto length = [this](int64_t variable) {
    const auto& [low, high] = problem_->domain[static_cast<size_t>(variable)];
    return high - low;
  };
  return std::clamp(length(up_) / length(across_), 1.0 / 3, 3.0);
}

}  // namespace propagator::tasks
