#include "propagator/physics/wake/wake_cycles.h"

#include <torch/utils.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "propagator/core/error.h"
#include "propagator/core/progress.h"
#include "propagator/core/stop.h"
#include "propagator/physics/wake/flow_window.h"
#include "propagator/physics/wake/wake.h"
#include "propagator/physics/wake/wake_harmonics.h"

namespace propagator::physics {

using torch::Tensor;

namespace {

constexpr double kSampling = 0.1;  // time between recorded velocities

// Places of Chebyshev in 1/Re, both ends included, from the highest Re down.
std::vector<double> chebyshev_reynolds(const WakeCyclesOptions& o) {
  std::vector<double> all;
  const double low = 1 / o.reynolds_max, high = 1 / o.reynolds_min;
  const auto last = static_cast<double>(o.nodes - 1);
  for (int64_t n = 0; n < o.nodes; ++n) {
    const double angle = std::numbers::pi * static_cast<double>(n) / last;
    all.push_back(1 / ((low + high) / 2 - (high - low) / 2 * std::cos(angle)));
  }
  return all;
}

double between(double first, double second) {
  return 2 / (1 / first + 1 / second);
}

// One flow that repeats itself.
struct Cycle {
  double reynolds = 0, strouhal = 0, drift = 0;
  double left_out = 0;  // root mean square over that of the fluctuation
  Tensor velocity;      // (2H + 1, 2, Y, X)
};

double rms_of(const Tensor& x) {
  return x.square().mean().sqrt().item<double>();
}

// Root mean square over window and period of coefficients (2H + 1, …).
double rms_of_harmonics(const Tensor& coefficients) {
  const auto squares = coefficients.square().flatten(1).mean(1);
  return std::sqrt(squares[0].item<double>() +
                   squares.slice(0, 1).sum().item<double>() / 2);
}
double fluctuation_of(const Tensor& coefficients) {
  auto without_mean = coefficients.clone();
  without_mean[0].zero_();
  return rms_of_harmonics(without_mean);
}

// Computes flows one after the other, each from what the last one left.
class CycleRecorder {
 public:
  CycleRecorder(const WakeCyclesOptions& o, const torch::Device& device)
      : o_(o), device_(device) {
    each_ = std::max<int64_t>(
        1, std::lround(std::ceil(kSampling / o.flow.time_step - 1e-9)));
    dt_ = kSampling / static_cast<double>(each_);
    before_ = std::lround(o.settling / kSampling);
    samples_ = std::lround(o.recording / kSampling);
  }

  // Steps of a flow, in recorded intervals.
  int64_t intervals() const { return before_ + samples_; }
  Cycle record(double reynolds, Progress& progress, int64_t done);

 private:
  Cycle cycle_of(double reynolds, const Tensor& velocities,
                 const Tensor& forces) const;

  WakeCyclesOptions o_;
  torch::Device device_;
  int64_t each_, before_, samples_;
  double dt_;
  Tensor vorticity_;  // that the last flow ended with
};

Cycle CycleRecorder::record(double reynolds, Progress& progress, int64_t done) {
  auto options = o_.flow;
  options.reynolds = reynolds;
  WakeFlow flow(options, dt_, device_);
  if (vorticity_.defined()) flow.start_from(vorticity_);
  const auto along = [&](double from, double to, int64_t count) {
    return torch::linspace(from, to, count, torch::kFloat64)
        .to(flow.grid().options());
  };
  const auto x = along(o_.x_min, o_.x_max, o_.columns);
  const auto y = along(o_.y_min, o_.y_max, o_.rows);
  const FlowWindow window(flow.grid(), x.repeat({o_.rows}),
                          y.repeat_interleave(o_.columns));
  std::vector<Tensor> velocities, forces;
  for (int64_t n = 0; n < intervals(); ++n) {
    for (int64_t i = 0; i < each_; ++i) {
      flow.step();
      if (n >= before_) forces.push_back(flow.forces());
    }
    flow.expect_finite();
    if (n >= before_) {
      const auto at =
          window.sample(flow.stream(), torch::zeros_like(flow.stream()));
      velocities.push_back(
          torch::stack({at.u, at.v}).view({2, o_.rows, o_.columns}).cpu());
    }
    expect_no_stop();
    progress.update(done + n + 1, [&] {
      return fmt::format("Re {:.1f}, time {:.1f}", reynolds, flow.time());
    });
  }
  vorticity_ = flow.vorticity();
  return cycle_of(reynolds, torch::stack(velocities),
                  torch::stack(forces).cpu());
}

Cycle CycleRecorder::cycle_of(double reynolds, const Tensor& velocities,
                              const Tensor& forces) const {
  const auto numbers = force_numbers(forces, dt_);
  if (!numbers.strouhal || numbers.periods < 2) {
    throw NumericalError(
        fmt::format("[wake-cycles] at Re = {:.4g} fewer than two vortices of a "
                    "side are shed while it is recorded",
                    reynolds),
        "set a larger wake.reynolds_min, wake.settling or wake.recording");
  }
  const double strouhal = *numbers.strouhal;
  // Both begin one step after the settling; velocities are at the end of each
  // interval.
  const auto times_of = [](int64_t count, double step) {
    return torch::arange(1, count + 1, torch::kFloat64) * step;
  };
  const auto lift = fit_harmonics(times_of(forces.size(0), dt_),
                                  forces.select(1, 1), strouhal, o_.harmonics);
  const double phase =
      std::atan2(lift[2].item<double>(), lift[1].item<double>());
  const auto times = times_of(velocities.size(0), kSampling) -
                     phase / (2 * std::numbers::pi * strouhal);
  Cycle cycle{
      .reynolds = reynolds,
      .strouhal = strouhal,
      .drift = numbers.drift,
      .velocity = fit_harmonics(times, velocities, strouhal, o_.harmonics)};
  const auto again = torch::matmul(
      harmonic_columns(2 * std::numbers::pi * strouhal * times, o_.harmonics),
      cycle.velocity.flatten(1));
  cycle.left_out =
      rms_of(velocities.flatten(1) - again) / fluctuation_of(cycle.velocity);
  return cycle;
}

WakeCyclesNumbers::HeldOut compare(const WakeCycles& table,
                                   const Cycle& cycle) {
  const auto at = torch::tensor({cycle.reynolds}, torch::kFloat64);
  return {.reynolds = cycle.reynolds,
          .strouhal = cycle.strouhal,
          .strouhal_error =
              std::abs(table.interpolate(table.strouhal, at)[0].item<double>() -
                       cycle.strouhal),
          .velocity_error =
              rms_of_harmonics(table.interpolate(table.velocity, at)[0] -
                               cycle.velocity) /
              fluctuation_of(cycle.velocity)};
}

}  // namespace

void WakeCyclesOptions::describe(config::Schema& s) {
  flow.describe_grid(s);
  s.field("reynolds_min", reynolds_min,
          {.help = "lowest Reynolds number; below about 47 no vortices are "
                   "shed, and near it flows take long to settle",
           .min = 50,
           .max = 300});
  s.field("reynolds_max", reynolds_max,
          {.help = "highest Reynolds number", .min = 50, .max = 300});
  s.field("nodes", nodes,
          {.help = "Reynolds numbers at which the flow is computed",
           .min = 2,
           .max = 30});
  s.field(
      "harmonics", harmonics,
      {.help = "harmonics of the shedding that are kept", .min = 1, .max = 20});
  const auto place = [&](const char* name, double& value, const char* help) {
    s.field(name, value,
            {.help = help, .unit = "D", .min = -1000, .max = 1000});
  };
  place("x_min", x_min, "left edge of the window; the cylinder is at 0");
  place("x_max", x_max, "right edge of the window");
  place("y_min", y_min, "lower edge of the window");
  place("y_max", y_max, "upper edge of the window");
  s.field("columns", columns,
          {.help = "points of the window along x", .min = 4, .max = 1000});
  s.field("rows", rows,
          {.help = "points of the window along y", .min = 4, .max = 1000});
  s.field("settling", settling,
          {.help = "time that each flow takes to become periodic",
           .unit = "D/U",
           .min = 1,
           .max = 1e4});
  s.field("recording", recording,
          {.help = "time after that, from which harmonics are found",
           .unit = "D/U",
           .min = 20,
           .max = 1e4});
}

void WakeCyclesOptions::validate() const {
  if (!(reynolds_min < reynolds_max)) {
    throw ConfigError("wake.reynolds_max",
                      fmt::format("expected more than wake.reynolds_min = {}, "
                                  "got {}",
                                  reynolds_min, reynolds_max));
  }
  // The window and the grid have the limits of any wake.
  WakeOptions one{.flow = flow,
                  .x_min = x_min,
                  .x_max = x_max,
                  .y_min = y_min,
                  .y_max = y_max,
                  .columns = columns,
                  .rows = rows};
  one.flow.reynolds = reynolds_max;
  one.validate();
}

void WakeCycles::expect_whole(const std::string& name) const {
  const auto fail = [&](const char* what) {
    throw DataError(fmt::format("{}: {}", name, what),
                    "`propagator data generate wake-cycles` makes such a file");
  };
  const auto rises = [](const Tensor& at, int64_t least) {
    return at.dim() == 1 && at.size(0) >= least &&
           torch::isfinite(at).all().item<bool>() &&
           (at.diff() > 0).all().item<bool>();
  };
  if (!rises(reynolds, 2) || reynolds[0].item<double>() <= 0) {
    fail("expected two or more Reynolds numbers that rise");
  }
  if (!rises(x, 4) || !rises(y, 4)) {
    fail("expected four or more places x and y that rise");
  }
  const bool fits = velocity.dim() == 5 && velocity.size(1) % 2 == 1 &&
                    velocity.size(1) >= 3 && strouhal.dim() == 1 &&
                    strouhal.size(0) == reynolds.size(0) &&
                    velocity.size(0) == reynolds.size(0) &&
                    velocity.size(2) == 2 && velocity.size(3) == y.size(0) &&
                    velocity.size(4) == x.size(0);
  if (!fits) fail("its arrays do not have the shapes of one table");
  if (!torch::isfinite(velocity).all().item<bool>() ||
      !torch::isfinite(strouhal).all().item<bool>()) {
    fail("a number is not finite");
  }
}

Tensor WakeCycles::interpolate(const Tensor& values, const Tensor& at) const {
  auto shape = values.sizes().vec();
  shape[0] = at.size(0);
  return torch::matmul(lagrange_weights(1 / at, 1 / reynolds),
                       values.reshape({values.size(0), -1}))
      .view(shape);
}

Tensor WakeCycles::at_sensors(const std::vector<double>& sensor_x,
                              const std::vector<double>& sensor_y) const {
  // The four nearest points, and their weights.
  const auto near = [](const Tensor& axis, double at) {
    const auto* begin = axis.data_ptr<double>();
    const auto* found = std::upper_bound(begin, begin + axis.size(0), at);
    const int64_t first =
        std::clamp<int64_t>(found - begin - 2, 0, axis.size(0) - 4);
    return std::pair(first,
                     lagrange_weights(torch::tensor({at}, torch::kFloat64),
                                      axis.narrow(0, first, 4))[0]);
  };
  std::vector<Tensor> all;
  for (size_t n = 0; n < sensor_x.size(); ++n) {
    const auto [column, over_x] = near(x, sensor_x[n]);
    const auto [row, over_y] = near(y, sensor_y[n]);
    const auto patch = velocity.narrow(3, row, 4).narrow(4, column, 4);
    all.push_back(torch::matmul(torch::matmul(patch, over_x), over_y));
  }
  return torch::stack(all, 3);
}

SimulatedCycles simulate_wake_cycles(const WakeCyclesOptions& o,
                                     const torch::Device& device) {
  const torch::NoGradGuard no_gradients;
  auto all = chebyshev_reynolds(o);
  const size_t table = all.size();
  // From the lowest up again: to the middle comes last.
  all.push_back(between(all[table - 1], all[table - 2]));
  all.push_back(between(all[table / 2 - 1], all[table / 2]));
  CycleRecorder recorder(o, device);
  const int64_t each = recorder.intervals();
  Progress progress("wake-cycles", each * std::ssize(all));
  std::vector<Cycle> cycles;
  for (const double reynolds : all) {
    cycles.push_back(
        recorder.record(reynolds, progress, each * std::ssize(cycles)));
  }
  SimulatedCycles found;
  std::vector<double> reynolds, strouhal;
  std::vector<Tensor> velocity;
  for (size_t n = table; n-- > 0;) {
    reynolds.push_back(cycles[n].reynolds);
    strouhal.push_back(cycles[n].strouhal);
    velocity.push_back(cycles[n].velocity);
    auto& numbers = found.numbers;
    numbers.left_out = std::max(numbers.left_out, cycles[n].left_out);
    numbers.drift = std::max(numbers.drift, cycles[n].drift);
  }
  const auto axis = [](double from, double to, int64_t count) {
    return torch::linspace(from, to, count, torch::kFloat64);
  };
  found.cycles = {.reynolds = torch::tensor(reynolds, torch::kFloat64),
                  .strouhal = torch::tensor(strouhal, torch::kFloat64),
                  .x = axis(o.x_min, o.x_max, o.columns),
                  .y = axis(o.y_min, o.y_max, o.rows),
                  .velocity = torch::stack(velocity)};
  for (size_t n = table; n < cycles.size(); ++n) {
    found.numbers.held_out.push_back(compare(found.cycles, cycles[n]));
  }
  return found;
}

}  // namespace propagator::physics
