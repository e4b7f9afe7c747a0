#include <fmt/format.h>
#include <torch/utils.h>

#include "propagator/core/error.h"
#include "propagator/core/log.h"
#include "propagator/data/gridded.h"
#include "propagator/tasks/reconstruct/sensors.h"

namespace propagator::tasks {
namespace {

using torch::Tensor;

// The places along a variable, which must be inside its interval.
Tensor inside_interval(const pde::Problem& problem, size_t variable,
                       const Tensor& places,
                       const std::filesystem::path& path) {
  const auto& [low, high] = problem.domain[variable];
  const double first = places[0].item<double>();
  const double last = places[-1].item<double>();
  const double rounding = kRounding * (high - low);
  if (first >= low - rounding && last <= high + rounding) {
    return places.clamp(low, high);
  }
  throw DataError(
      fmt::format("{}: {} goes from {:.6g} to {:.6g}, and in problem.domain "
                  "from {:.6g} to {:.6g}",
                  path.string(), problem.symbols.variables[variable], first,
                  last, low, high),
      "change problem.domain, or the file");
}

// Of a part of the domain that has no node nothing is known: neither sensors
// nor the test are there. The half of a cell, or the end of a period, is none.
void warn_of_gap(const pde::Problem& problem, size_t variable,
                 const Tensor& places, const std::filesystem::path& path) {
  constexpr double kCells = 1.5;
  const auto& [low, high] = problem.domain[variable];
  const double first = places[0].item<double>();
  const double last = places[-1].item<double>();
  const double cell =
      places.size(0) > 1
          ? (last - first) / static_cast<double>(places.size(0) - 1)
          : 0;
  if (first - low <= kCells * cell && high - last <= kCells * cell) return;
  log::warn(
      "{}: {} goes from {:.6g} to {:.6g}, and in problem.domain from {:.6g} to "
      "{:.6g}: the test says nothing of the rest",
      path.string(), problem.symbols.variables[variable], first, last, low,
      high);
}

}  // namespace

GriddedFields read_gridded_fields(const std::filesystem::path& path,
                                  const pde::Problem& problem) {
  const auto read = data::read_gridded(path, problem.symbols.variables,
                                       problem.symbols.fields);
  GriddedFields all;
  all.grid.variables = problem.symbols.variables;
  for (size_t v = 0; v < problem.domain.size(); ++v) {
    all.grid.along.push_back(inside_interval(problem, v, read.along[v], path));
    warn_of_gap(problem, v, read.along[v], path);
  }
  all.fields = read.fields;
  return all;
}

Tensor evenly_spread(int64_t count, int64_t size) {
  return ((torch::arange(count, torch::kFloat64) + 0.5) *
          (static_cast<double>(size) / static_cast<double>(count)))
      .floor()
      .to(torch::kInt64);
}

GriddedFields snapshots_of(const GriddedFields& all, int64_t time,
                           int64_t count) {
  if (time < 0 || count == 0 || count >= all.grid.size(time)) return all;
  const auto chosen = evenly_spread(count, all.grid.size(time));
  auto some = all;
  auto& places = some.grid.along[static_cast<size_t>(time)];
  places = places.index_select(0, chosen);
  auto shape = all.grid.shape();
  shape.push_back(-1);
  some.fields =
      all.fields.reshape(shape).index_select(time, chosen).flatten(0, -2);
  return some;
}

}  // namespace propagator::tasks
