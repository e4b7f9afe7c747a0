#include <fmt/ranges.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>

#include "propagator/core/error.h"
#include "propagator/core/log.h"
#include "propagator/core/random.h"
#include "propagator/data/named_table.h"
#include "propagator/tasks/reconstruct/sensors.h"

// Readings that a user brings in a file.

namespace propagator::tasks {
namespace {

using torch::Tensor;

// A point as a user knows it: "x = 0.5, t = 1".
std::string text_of(const pde::Problem& problem, const Tensor& point) {
  std::string text;
  for (size_t v = 0; v < problem.domain.size(); ++v) {
    text += fmt::format("{}{} = {:.6g}", v == 0 ? "" : ", ",
                        problem.symbols.variables[v],
                        point[static_cast<int64_t>(v)].item<double>());
  }
  return text;
}

// Readings that contradict one another are kept: there may be noise.
void warn_of_repeats(const pde::Problem& problem, const Sensors& sensors,
                     const std::string& path) {
  const auto [places, place_of, counts] =
      torch::unique_dim(sensors.points, 0, true, true, true);
  const int64_t repeats = sensors.count() - places.size(0);
  if (repeats == 0) return;
  std::vector<int64_t> first(static_cast<size_t>(places.size(0)), -1);
  double largest = 0;
  int64_t where = 0;
  for (int64_t n = 0; n < sensors.count(); ++n) {
    auto& known = first[static_cast<size_t>(place_of[n].item<int64_t>())];
    if (known < 0) {
      known = n;
      continue;
    }
    const double off = (sensors.readings[n] - sensors.readings[known])
                           .abs()
                           .nan_to_num(0)
                           .max()
                           .item<double>();
    if (off > largest) {
      largest = off;
      where = n;
    }
  }
  if (largest == 0) {
    log::warn("{}: {} sensors stand where another does", path, repeats);
    return;
  }
  log::warn(
      "{}: {} sensors stand where another does, with readings that differ by "
      "up to {:.3g} (at {}): the answer goes between them",
      path, repeats, largest, text_of(problem, sensors.points[where]));
}

SensorSplit split(const Sensors& all, int64_t training, int64_t seed) {
  const auto order =
      RandomStream(seed, "sensors/split").permutation(all.count(), 0);
  const auto cut = order.begin() + training;
  return {all.rows({order.begin(), cut}), all.rows({cut, order.end()})};
}

// A field's readings, one for each sensor; NaN where there is none.
Tensor readings_of(const Tensor& array, const std::string& field,
                   int64_t sensors, const std::string& path) {
  const auto readings = array.to(torch::kFloat64).flatten();
  if (readings.size(0) != sensors) {
    throw DataError(
        fmt::format("{}: expected a reading of {} for each of {} "
                    "sensors, got {}",
                    path, field, sensors, readings.size(0)));
  }
  const auto infinite = torch::isinf(readings).nonzero();
  if (infinite.numel() > 0) {
    throw DataError(fmt::format("{}: reading {} of {} is infinite", path,
                                infinite[0][0].item<int64_t>() + 1, field),
                    "a reading that is not there is NaN");
  }
  return readings;
}

// Which of the fields were read at all.
std::vector<bool> fields_read(const Sensors& sensors) {
  const auto any = torch::isfinite(sensors.readings).any(0);
  std::vector<bool> read;
  for (int64_t f = 0; f < any.size(0); ++f) {
    read.push_back(any[f].item<bool>());
  }
  return read;
}

// DataError where no field was read, or not one that was asked for.
void expect_readings(const pde::Problem& problem, const Sensors& sensors,
                     const SensorOptions& options,
                     const std::vector<int64_t>& measured) {
  const auto& names = problem.symbols.fields;
  const auto read = fields_read(sensors);
  if (std::ranges::count(read, true) == 0) {
    throw DataError(
        fmt::format("{} has no reading of {}", options.file,
                    measured.size() == 1
                        ? names[static_cast<size_t>(measured[0])]
                        : "any field"),
        fmt::format("a column or an array with a field's name holds its "
                    "readings; the problem has {}",
                    fmt::join(names, ", ")));
  }
  for (const int64_t f : measured) {
    const auto& name = names[static_cast<size_t>(f)];
    if (read[static_cast<size_t>(f)]) continue;
    if (std::ranges::count(options.fields, name) == 0) continue;
    throw DataError(
        fmt::format("{} has no reading of {}: all are NaN", options.file, name),
        fmt::format("leave {} out of sensors.fields", name));
  }
}

// DataError where those that train have no reading, a warning where they lack
// those of a field.
void expect_training_readings(const pde::Problem& problem, const Sensors& all,
                              const Sensors& training,
                              const std::string& path) {
  const auto read = fields_read(all), trains = fields_read(training);
  if (std::ranges::count(trains, true) == 0) {
    throw DataError(fmt::format("{}: the {} sensors that train have no reading",
                                path, training.count()),
                    "lower sensors.held_out, or raise sensors.count");
  }
  for (size_t f = 0; f < read.size(); ++f) {
    if (!read[f] || trains[f]) continue;
    log::warn("{}: no sensor that trains has a reading of {}", path,
              problem.symbols.fields[f]);
  }
}

}  // namespace

void expect_inside(const pde::Problem& problem, const Tensor& points,
                   const std::string& path) {
  for (size_t v = 0; v < problem.domain.size(); ++v) {
    const auto& [low, high] = problem.domain[v];
    auto column = points.select(1, static_cast<int64_t>(v));
    const double rounding = kRounding * (high - low);
    const auto outside =
        ((column < low - rounding) | (column > high + rounding)).nonzero();
    if (outside.numel() == 0) {
      column.clamp_(low, high);
      continue;
    }
    const int64_t first = outside[0][0].item<int64_t>();
    throw DataError(
        fmt::format("{}: {} of {} sensors are outside of the domain, the first "
                    "at {}: {} goes from {:.6g} to {:.6g}",
                    path, outside.size(0), points.size(0),
                    text_of(problem, points[first]),
                    problem.symbols.variables[v], low, high),
        "leave them out, or widen problem.domain");
  }
}

SensorSplit divide(const Sensors& all, const std::string& path,
                   const SensorOptions& options, int64_t seed) {
  int64_t used = all.count();
  if (options.count > used) {
    log::warn(
        "{}: it has {} sensors, fewer than sensors.count = {}: all are "
        "used",
        path, used, options.count);
  } else if (options.count > 0) {
    used = options.count;
  }
  const auto chosen = split(all, used, seed).training;
  const auto held_out =
      std::llround(options.held_out * static_cast<double>(used));
  // One sensor at least is for training.
  return split(chosen, used - std::min<int64_t>(held_out, used - 1), seed);
}

SensorSplit read_readings(const pde::Problem& problem,
                          const SensorOptions& options,
                          const std::vector<int64_t>& measured, int64_t seed) {
  const auto& names = problem.symbols.fields;
  std::vector<std::string> wanted;
  for (const int64_t f : measured) {
    wanted.push_back(names[static_cast<size_t>(f)]);
  }
  // Fields that were asked for must be there; else those that are.
  auto needed = problem.symbols.variables;
  if (!options.fields.empty()) {
    needed.insert(needed.end(), wanted.begin(), wanted.end());
  }
  const auto table = data::read_table(options.file, needed, wanted, names);
  Sensors all;
  all.points = data::blame_file(options.file, [&] {
    return data::stack_points(table, problem.symbols.variables).flatten(0, -2);
  });
  all.readings = torch::full({all.count(), std::ssize(names)}, std::nan(""),
                             torch::kFloat64);
  int64_t read = 0, missing = 0;
  for (const int64_t f : measured) {
    const auto& name = names[static_cast<size_t>(f)];
    const auto found = table.find(name);
    if (found == table.end()) continue;
    const auto column =
        readings_of(found->second, name, all.count(), options.file);
    all.readings.select(1, f).copy_(column);
    missing += torch::isnan(column).sum().item<int64_t>();
    read += column.size(0);
  }
  expect_readings(problem, all, options, measured);
  if (missing > 0) {
    log::info("{}: {} of {} readings are missing", options.file, missing, read);
  }
  expect_inside(problem, all.points, options.file);
  warn_of_repeats(problem, all, options.file);
  auto parts = divide(all, options.file, options, seed);
  expect_training_readings(problem, all, parts.training, options.file);
  return parts;
}

}  // namespace propagator::tasks
