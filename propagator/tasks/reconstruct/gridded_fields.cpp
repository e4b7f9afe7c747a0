#include <fmt/format.h>
#include <torch/utils.h>

#include "propagator/core/error.h"
#include "propagator/data/gridded.h"
#include "propagator/tasks/reconstruct/sensors.h"

namespace propagator::tasks {
namespace {

using torch::Tensor;

// The places along a variable must be inside its interval.
void expect_places_inside(const pde::Problem& problem, size_t variable,
                          const Tensor& places,
                          const std::filesystem::path& path) {
  const auto& [low, high] = problem.domain[variable];
  const double first = places[0].item<double>();
  const double last = places[-1].item<double>();
  if (first >= low && last <= high) return;
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
  for (size_t v = 0; v < problem.domain.size(); ++v) {
    expect_places_inside(problem, v, read.along[v], path);
  }
  GriddedFields all;
  all.grid.variables = problem.symbols.variables;
  all.grid.along = read.along;
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
