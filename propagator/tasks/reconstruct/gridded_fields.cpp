#include <fmt/format.h>
#include <torch/utils.h>

#include "propagator/core/error.h"
#include "propagator/data/gridded.h"
#include "propagator/tasks/reconstruct/sensors.h"

namespace propagator::tasks {
namespace {

using torch::Tensor;

// A share of an interval by which 199 · 0.1 may be beyond 19.9.
constexpr double kRounding = 1e-9;

// The places along a variable, which must be inside its interval.
Tensor places_inside(const pde::Problem& problem, size_t variable,
                     const Tensor& places, const std::filesystem::path& path) {
  const auto& [low, high] = problem.domain[variable];
  const double first = places[0].item<double>();
  const double last = places[-1].item<double>();
  const double slack = kRounding * (high - low);
  if (first >= low - slack && last <= high + slack) {
    return places.clamp(low, high);
  }
  throw DataError(
      fmt::format("{}: {} goes from {:.6g} to {:.6g}, and in problem.domain "
                  "from {:.6g} to {:.6g}",
                  path.string(), problem.symbols.variables[variable], first,
                  last, low, high),
      "change problem.domain, or the file");
}

}  // namespace

GriddedFields read_gridded_fields(const std::filesystem::path& path,
                                  const pde::Problem& problem) {
  const auto read = data::read_gridded(path, problem.symbols.variables,
                                       problem.symbols.fields);
  GriddedFields all;
  all.grid.variables = problem.symbols.variables;
  for (size_t v = 0; v < problem.domain.size(); ++v) {
    all.grid.along.push_back(places_inside(problem, v, read.along[v], path));
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
