#include "propagator/tasks/reconstruct/sensors.h"

#include <fmt/format.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>

#include "propagator/core/error.h"
#include "propagator/core/log.h"
#include "propagator/core/random.h"
#include "propagator/data/named_table.h"
#include "propagator/pde/reference/classical_answer.h"
#include "propagator/pde/residual/problem_box.h"

namespace propagator::tasks {
namespace {

using torch::Tensor;

constexpr int64_t kDrawn = 200;  // sensors, if nobody says how many

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

void expect_inside(const pde::Problem& problem, const Tensor& points,
                   const std::string& path) {
  for (size_t v = 0; v < problem.domain.size(); ++v) {
    const auto& [low, high] = problem.domain[v];
    const auto column = points.select(1, static_cast<int64_t>(v));
    const auto outside = ((column < low) | (column > high)).nonzero();
    if (outside.numel() == 0) continue;
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

// How many sensors to draw: those that train, and those held out.
struct Drawn {
  int64_t training, held_out;
};

Drawn drawn_of(const SensorOptions& options) {
  const int64_t count = options.count > 0 ? options.count : kDrawn;
  const auto held_out =
      std::llround(options.held_out * static_cast<double>(count));
  return {count, options.held_out > 0 ? std::max<int64_t>(1, held_out) : 0};
}

// NaN in place of fields that are not read.
Tensor only(const Tensor& fields, const std::vector<int64_t>& measured) {
  auto readings = torch::full_like(fields, std::nan(""));
  for (const int64_t f : measured) {
    readings.select(1, f).copy_(fields.select(1, f));
  }
  return readings;
}

SensorSplit with_noise(SensorSplit sensors, double noise, int64_t seed) {
  if (noise == 0) return sensors;
  const auto size = sensors.training.readings.std(0, true);
  const auto add = [&](Sensors& some, const char* stream) {
    some.readings +=
        noise * size * RandomStream(seed, stream).normal(some.readings.sizes());
  };
  add(sensors.training, "sensors/noise");
  if (sensors.held_out.count() > 0) add(sensors.held_out, "sensors/noise-out");
  return sensors;
}

// Places so that about `count` combinations of them fill a box of D axes.
int64_t per_axis(int64_t count, size_t axes) {
  return std::max<int64_t>(
      1, std::llround(std::pow(static_cast<double>(count),
                               1 / static_cast<double>(axes))));
}

}  // namespace

Sensors Sensors::rows(const std::vector<int64_t>& numbers) const {
  const auto chosen = torch::tensor(numbers, torch::kInt64);
  return {points.index_select(0, chosen), readings.index_select(0, chosen)};
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
  const bool asked = !options.fields.empty();
  auto needed = problem.symbols.variables;
  if (asked) needed.insert(needed.end(), wanted.begin(), wanted.end());
  const auto table = data::read_table(options.file, needed, wanted);
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
    const auto column = found->second.to(torch::kFloat64).flatten();
    if (column.size(0) != all.count() ||
        torch::isinf(column).any().item<bool>()) {
      throw DataError(
          fmt::format("{}: expected {} readings of {} that are not infinite",
                      options.file, all.count(), name));
    }
    all.readings.select(1, f).copy_(column);
    missing += torch::isnan(column).sum().item<int64_t>();
    read += column.size(0);
  }
  if (read == missing) {
    throw DataError(
        fmt::format("{} has no reading of {}", options.file,
                    wanted.size() == 1 ? wanted.front() : "any field"),
        "a column or an array with a field's name holds its readings");
  }
  if (missing > 0) {
    log::info("{}: {} of {} readings are missing (NaN)", options.file, missing,
              read);
  }
  expect_inside(problem, all.points, options.file);
  warn_of_repeats(problem, all, options.file);
  int64_t used = all.count();
  if (options.count > 0) used = std::min(used, options.count);
  all = split(all, used, seed).training;
  const auto held_out =
      std::llround(options.held_out * static_cast<double>(used));
  // One sensor at least is for training.
  return split(all, used - std::min<int64_t>(held_out, used - 1), seed);
}

SensorSplit sensors_on_grid(const GriddedFields& truth,
                            const SensorOptions& options,
                            const std::vector<int64_t>& measured,
                            int64_t seed) {
  const Sensors all{truth.grid.points(), only(truth.fields, measured)};
  const auto [training, held_out] = drawn_of(options);
  if (training + held_out > all.count()) {
    throw DataError(fmt::format("the truth has {} nodes, fewer than {} sensors",
                                all.count(), training + held_out),
                    "lower sensors.count or sensors.held_out");
  }
  if (options.placement == Placement::kGrid) {
    const auto shape = truth.grid.shape();
    const int64_t along = per_axis(training, shape.size());
    auto number = torch::zeros({1}, torch::kInt64);
    for (const int64_t size : shape) {
      number =
          (number.unsqueeze(1) * size + evenly_spread(along, size)).flatten();
    }
    const auto chosen = std::get<0>(torch::_unique(number));
    std::vector<int64_t> rows(chosen.data_ptr<int64_t>(),
                              chosen.data_ptr<int64_t>() + chosen.numel());
    return with_noise({all.rows(rows), all.rows({})}, options.noise, seed);
  }
  const auto order =
      RandomStream(seed, "sensors/nodes").permutation(all.count(), 0);
  const auto cut = order.begin() + training;
  return with_noise(
      {all.rows({order.begin(), cut}), all.rows({cut, cut + held_out})},
      options.noise, seed);
}

SensorSplit sensors_of_solution(const pde::Problem& problem,
                                const SensorOptions& options,
                                const std::vector<int64_t>& measured,
                                int64_t seed) {
  const auto box = pde::box_of(problem);
  const auto [training, held_out] = drawn_of(options);
  const auto drawn = [&](int64_t count, const char* stream) {
    const auto low = torch::tensor(box.low, torch::kFloat64);
    const auto high = torch::tensor(box.high, torch::kFloat64);
    return low + (high - low) * RandomStream(seed, stream)
                                    .uniform({count, box.dimensions()}, 0, 1,
                                             torch::kFloat64);
  };
  const auto inside =
      options.placement == Placement::kGrid
          ? pde::cell_centres(box, per_axis(training, box.low.size()))
          : drawn(training, "sensors/positions");
  const auto points =
      torch::cat({inside, drawn(held_out, "sensors/positions-out")});
  const auto fields = pde::reference_at(problem, points).fields;
  const Sensors all{points, only(fields, measured)};
  const auto part = [&](int64_t from, int64_t to) {
    return Sensors{all.points.slice(0, from, to).clone(),
                   all.readings.slice(0, from, to).clone()};
  };
  return with_noise(
      {part(0, inside.size(0)), part(inside.size(0), all.count())},
      options.noise, seed);
}

}  // namespace propagator::tasks
