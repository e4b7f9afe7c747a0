#include "propagator/tasks/reconstruct/sensors.h"

#include <fmt/format.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>

#include "propagator/core/error.h"
#include "propagator/core/random.h"
#include "propagator/pde/reference/classical_answer.h"
#include "propagator/pde/residual/problem_box.h"

namespace propagator::tasks {
namespace {

using torch::Tensor;

constexpr int64_t kDrawn = 200;  // sensors, if nobody says how many

// Nothing can be trained without readings: a solution of them may take longer
// than one that only tests.
constexpr double kReferenceError = 1e-6;
constexpr double kReferenceSeconds = 600;

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

// Places so that about `count` combinations of them fill a box of D axes.
int64_t per_axis(int64_t count, size_t axes) {
  return std::max<int64_t>(
      1, std::llround(std::pow(static_cast<double>(count),
                               1 / static_cast<double>(axes))));
}

}  // namespace

Tensor measured_only(const Tensor& fields,
                     const std::vector<int64_t>& measured) {
  auto readings = torch::full_like(fields, std::nan(""));
  for (const int64_t f : measured) {
    readings.select(1, f).copy_(fields.select(1, f));
  }
  return readings;
}

SensorSplit with_noise(SensorSplit sensors, double noise, int64_t seed) {
  if (noise == 0) return sensors;
  sensors.noise = noise * sensors.training.readings.std(0, true);
  const auto add = [&](Sensors& some, const char* stream) {
    some.readings += sensors.noise *
                     RandomStream(seed, stream).normal(some.readings.sizes());
  };
  add(sensors.training, "sensors/noise");
  if (sensors.held_out.count() > 0) add(sensors.held_out, "sensors/noise-out");
  return sensors;
}

Tensor solution_at(const pde::Problem& problem, const Tensor& points) {
  return pde::reference_at(problem, points, kReferenceError, kReferenceSeconds)
      .fields;
}

Sensors Sensors::rows(const std::vector<int64_t>& numbers) const {
  const auto chosen = torch::tensor(numbers, torch::kInt64);
  return {points.index_select(0, chosen), readings.index_select(0, chosen)};
}

SensorSplit sensors_on_grid(const GriddedFields& truth,
                            const SensorOptions& options,
                            const std::vector<int64_t>& measured,
                            int64_t seed) {
  const Sensors all{truth.grid.points(), measured_only(truth.fields, measured)};
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
  const Sensors all{points,
                    measured_only(solution_at(problem, points), measured)};
  const auto part = [&](int64_t from, int64_t to) {
    return Sensors{all.points.slice(0, from, to).clone(),
                   all.readings.slice(0, from, to).clone()};
  };
  return with_noise(
      {part(0, inside.size(0)), part(inside.size(0), all.count())},
      options.noise, seed);
}

}  // namespace propagator::tasks
