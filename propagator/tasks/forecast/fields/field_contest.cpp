#include <torch/utils.h>

#include <cmath>
#include <optional>

#include "propagator/core/log.h"
#include "propagator/core/stopwatch.h"
#include "propagator/tasks/forecast/fields/field_classical.h"
#include "propagator/tasks/forecast/fields/field_errors.h"
#include "propagator/tasks/forecast/fields/field_forecast.h"

// What stands beside a forecast because the file's simulator is known: its
// solver at equal time, and sums that it conserves.

namespace propagator::tasks {
namespace {

using data::Split;
using nlohmann::json;
using torch::Tensor;

// Seconds of `work`, from an idle device to an idle one.
template <class Work>
double seconds_of(const Runtime& runtime, const Work& work) {
  wait_for(runtime);
  const Stopwatch clock;
  work();
  wait_for(runtime);
  return clock.seconds();
}

// One grid's forecast of all cases of a test.
struct ClassicalTest {
  FieldErrors errors;
  double fastest = std::numeric_limits<double>::infinity();  // seconds a case
};

// As result.json has it.
json numbers_of(const ClassicalField& solver, size_t grid,
                const ClassicalTest& test, double limit,
                const std::vector<std::string>& channels) {
  if (!std::isfinite(test.errors.nrmse())) {
    return {{"missing", fmt::format("that of {} is not finite on a grid on "
                                    "which it takes as long",
                                    solver.name())}};
  }
  auto numbers = test.errors.numbers(channels);
  numbers["simulator"] = solver.name();
  numbers["grid"] = solver.grids()[grid];
  numbers["seconds_per_case"] = test.fastest;
  numbers["in_time"] = test.fastest <= limit;
  return numbers;
}

}  // namespace

std::vector<std::string> FieldForecast::conserved(Split split) const {
  const auto& chosen = eval_options_.conserved;
  if (!chosen.empty()) {
    return chosen.front() == kNoneOfThem ? std::vector<std::string>{} : chosen;
  }
  const auto simulator = data::simulator_of(data(split).note());
  if (!simulator) return {};
  auto known = simulator->problem().conserved();
  std::erase_if(known, [&](const auto& name) {
    return std::ranges::count(layout_.channels, name) == 0;
  });
  return known;
}

void FieldForecast::add_classical(json& result, Split split) const {
  const auto& source = data(split);
  const ClassicalField solver(source.note(), layout_);
  if (!solver.missing().empty()) {
    result["classical"] = {{"missing", solver.missing()}};
    return;
  }
  const auto cases = result.at("cases").get<int64_t>();
  const auto limit = result.at("seconds_per_case").get<double>();
  const int64_t given = data_options_.given, steps = this->steps(split);
  const auto forecast_on = [&](size_t grid, const data::FieldBatch& batch,
                               int64_t count) {
    return solver.continued(grid, batch.frames.select(1, given - 1),
                            batch.parameters, count);
  };
  const auto batch_at = [&](int64_t n) {
    return source.range(split, n, std::min(eval_options_.batch, cases - n));
  };
  // Seconds a case, as one frame has it, so that no long run is for nothing.
  const auto expected = [&](size_t grid, const data::FieldBatch& batch) {
    forecast_on(grid, batch, 1);
    const double one =
        seconds_of(runtime_, [&] { forecast_on(grid, batch, 1); });
    return one * static_cast<double>(steps) /
           static_cast<double>(batch.frames.size(0));
  };
  const auto test_on = [&](size_t grid) {
    ClassicalTest test;
    for (int64_t n = 0; n < cases; n += eval_options_.batch) {
      const auto batch = batch_at(n);
      Tensor answer;
      const double seconds = seconds_of(
          runtime_, [&] { answer = forecast_on(grid, batch, steps); });
      const auto count = static_cast<double>(batch.frames.size(0));
      test.fastest = std::min(test.fastest, seconds / count);
      test.errors.add(batch.frames.narrow(1, given, steps), answer);
    }
    return test;
  };
  const auto first = batch_at(0);
  const size_t last = solver.grids().size() - 1;
  for (size_t grid = 0; grid <= last; ++grid) {
    if (grid < last && expected(grid, first) > limit) continue;
    const auto test = test_on(grid);
    if (grid < last && test.fastest > limit) continue;
    result["classical"] =
        numbers_of(solver, grid, test, limit, layout_.channels);
    return;
  }
}

}  // namespace propagator::tasks
