#include <fmt/ranges.h>
#include <torch/utils.h>

#include <algorithm>

#include "propagator/core/error.h"
#include "propagator/data/named_table.h"
#include "propagator/tasks/reconstruct/sensors.h"

namespace propagator::tasks {
namespace {

using torch::Tensor;

// The places along a variable, which must rise inside its interval.
Tensor places_of(const pde::Problem& problem, size_t variable,
                 const Tensor& array, const std::string& path) {
  const auto& name = problem.symbols.variables[variable];
  const auto& [low, high] = problem.domain[variable];
  const auto places = array.to(torch::kFloat64).flatten();
  const bool rises =
      places.numel() > 0 && torch::isfinite(places).all().item<bool>() &&
      (places.numel() == 1 || (places.diff() > 0).all().item<bool>());
  if (!rises) {
    throw DataError(
        fmt::format("{}: expected numbers of {} that rise", path, name));
  }
  const double first = places[0].item<double>();
  const double last = places[-1].item<double>();
  if (first < low || last > high) {
    throw DataError(
        fmt::format("{}: {} goes from {:.6g} to {:.6g}, and in problem.domain "
                    "from {:.6g} to {:.6g}",
                    path, name, first, last, low, high),
        "change problem.domain, or the file");
  }
  return places;
}

}  // namespace

GriddedFields read_gridded_fields(const std::filesystem::path& path,
                                  const pde::Problem& problem) {
  auto names = problem.symbols.variables;
  const auto& fields = problem.symbols.fields;
  names.insert(names.end(), fields.begin(), fields.end());
  const auto table = data::read_table(path, names);
  GriddedFields all;
  all.grid.variables = problem.symbols.variables;
  for (size_t v = 0; v < problem.domain.size(); ++v) {
    all.grid.along.push_back(places_of(problem, v, table.at(names[v]), path));
  }
  const auto shape = all.grid.shape();
  const std::vector<int64_t> reversed(shape.rbegin(), shape.rend());
  std::vector<Tensor> columns;
  for (const auto& field : fields) {
    auto values = table.at(field).to(torch::kFloat64);
    if (values.sizes() != shape && values.sizes() == reversed) {
      std::vector<int64_t> order(shape.size());
      for (size_t v = 0; v < order.size(); ++v) {
        order[v] = static_cast<int64_t>(order.size() - 1 - v);
      }
      values = values.permute(order);
    }
    if (values.sizes() != shape ||
        !torch::isfinite(values).all().item<bool>()) {
      throw DataError(fmt::format(
          "{}: expected finite numbers of {} over {} or {} places, got {}",
          path.string(), field, fmt::join(shape, " x "),
          fmt::join(reversed, " x "), fmt::join(values.sizes(), " x ")));
    }
    columns.push_back(values.flatten());
  }
  all.fields = torch::stack(columns, 1);
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
