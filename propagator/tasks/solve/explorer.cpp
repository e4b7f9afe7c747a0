#include <fmt/format.h>
#include <torch/utils.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "propagator/tasks/solve/solve.h"

// What of a solution a reader moves through, and where its fields were read.

namespace propagator::tasks {
namespace {

using torch::Tensor;

// Sensors are near an instant within this share of all time.
constexpr double kNear = 1.0 / 40;
// More points would hide the map.
constexpr int64_t kMaxDots = 400;
// Nodes along an axis of space, and frames, that a page has room for.
constexpr int64_t kNodes = 128, kFrames = 60;

// So many of the points (n, 2), evenly from first to last.
report::Dots dots_at(const Tensor& points) {
  const int64_t count = points.size(0), kept = std::min(count, kMaxDots);
  report::Dots dots;
  for (int64_t k = 0; k < kept; ++k) {
    const auto point = points[k * count / kept];
    dots.x.push_back(point[0].item<double>());
    dots.y.push_back(point[1].item<double>());
  }
  return dots;
}

// What the rings of an animation and an explorer are, if there are any.
std::string remark_on_rings(const report::FieldSeries& series) {
  size_t most = 0;
  for (const auto& read : series.sensors) {
    most = std::max(most, read.times.size());
  }
  if (most == 0) return "";
  constexpr size_t kShown = report::FieldSeries::kMostSensors;
  return fmt::format(
      " Rings are where a field was read{}{}.",
      series.times.size() == 1
          ? ""
          : fmt::format(" within half a step of the {} shown",
                        series.time_label),
      most <= kShown ? "" : fmt::format(", at most {} of them", kShown));
}

}  // namespace

double Solve::reach_of(const SolvePlane& plane) const {
  if (plane.held() < 0) return 0;
  const auto& [low, high] = problem_->domain[static_cast<size_t>(plane.held())];
  return kNear * (high - low);
}

std::vector<report::Dots> Solve::dots_of(const Readings& read,
                                         const SolvePlane& plane) const {
  if (!read.points.defined()) return {};
  std::vector<report::Dots> all;
  for (const auto& points : plane.near(read.points, reach_of(plane))) {
    all.push_back(dots_at(points));
  }
  return all;
}

std::string Solve::remark_on(const Readings& read,
                             const SolvePlane& plane) const {
  if (!read.points.defined()) return "";
  if (read.points.size(0) == 0) return " It is never read.";
  int64_t most = 0;
  for (const auto& points : plane.near(read.points, reach_of(plane))) {
    most = std::max(most, points.size(0));
  }
  std::string where;
  if (plane.held() >= 0) {
    const auto held = static_cast<size_t>(plane.held());
    where = fmt::format(" within {:.3g} of the {} shown", reach_of(plane),
                        problem_->symbols.variables[held]);
  }
  if (most == 0) return fmt::format(" It was read nowhere{}.", where);
  return fmt::format(
      " Points are where it was read{}{}.", where,
      most <= kMaxDots ? "" : fmt::format(", at most {} of them", kMaxDots));
}

std::vector<int64_t> Solve::explorer_strides(const TestGrid& grid) const {
  const auto plane =
      SolvePlane::of(grid, problem_->time(), problem_->parameter());
  std::vector<int64_t> strides;
  for (int64_t v = 0; v < std::ssize(grid.along); ++v) {
    const int64_t most = plane && v == plane->held() ? kFrames : kNodes;
    strides.push_back((grid.size(v) + most - 1) / most);
  }
  return strides;
}

Solve::Explored Solve::explored(models::FieldNet&, const Answer& answer) {
  const auto& whole = reference_.grid();
  const auto [grid, rows] = whole.every(explorer_strides(whole));
  Explored fields{grid,
                  reference_.on_grid(answer.fields).index_select(0, rows)};
  if (const auto* known = reference_.find()) {
    fields.truth = reference_.on_grid(known->fields).index_select(0, rows);
  }
  return fields;
}

std::vector<report::Sensors> Solve::sensors_on(const SolvePlane& plane) const {
  std::vector<report::Sensors> all;
  for (int64_t f = 0; f < std::ssize(problem_->symbols.fields); ++f) {
    const auto [points, values] = readings_of(f);
    if (!points.defined()) return {};
    const auto places =
        plane.near(points, std::numeric_limits<double>::infinity())[0];
    all.push_back(
        {report::numbers(places.select(1, 0)),
         report::numbers(places.select(1, 1)),
         plane.held() < 0
             ? std::vector<double>(static_cast<size_t>(points.size(0)), 0.0)
             : report::numbers(points.select(1, plane.held()))});
  }
  return all;
}

void Solve::draw_explorer(const Explored& fields,
                          report::Report& report) const {
  const auto plane =
      SolvePlane::of(fields.grid, problem_->time(), problem_->parameter(),
                     std::numeric_limits<int64_t>::max());
  const auto& names = problem_->symbols.fields;
  const auto frames = [&](const Tensor& values) {  // (F, S, R, C)
    return plane->pictures(values).unflatten(0, {std::ssize(names), -1});
  };
  report::FieldSeries series;
  series.times = plane->held_values();
  series.cases = names;
  series.x = plane->across();
  series.y = plane->up();
  std::swap(series.y.first, series.y.last);  // row 0 is at the top
  series.prediction = frames(fields.answer);
  if (fields.truth.defined()) series.truth = frames(fields.truth);
  if (plane->held() >= 0) {
    series.time_label =
        problem_->symbols.variables[static_cast<size_t>(plane->held())];
  }
  series.sensors = sensors_on(*plane);
  const auto rings = remark_on_rings(series);
  const auto what =
      series.truth.defined() ? "truth, prediction and error" : "the prediction";
  if (plane->held() >= 0 && plane->held() == problem_->time()) {
    std::vector<int64_t> all(names.size());
    std::iota(all.begin(), all.end(), 0);
    report.animation(series, all, "animation",
                     fmt::format("The fields over time: {}.{}", what, rings));
  }
  report.text(fmt::format(
      "Look for yourself: choose a field{}, point at a node to read {}; a "
      "click keeps the node.{}",
      plane->held() < 0 ? "" : ", move through " + series.time_label, what,
      rings));
  report.explorer(series);
}

}  // namespace propagator::tasks
