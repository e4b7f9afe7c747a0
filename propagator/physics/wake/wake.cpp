#include "propagator/physics/wake/wake.h"

#include <algorithm>
#include <cmath>

#include "propagator/core/error.h"
#include "propagator/core/log.h"
#include "propagator/core/progress.h"
#include "propagator/core/stop.h"
#include "propagator/physics/wake/total_head.h"

namespace propagator::physics {
namespace {

constexpr int64_t kMaxValues = 100'000'000;  // of one field: 0.8 GB
constexpr double kSettled = 0.01;            // drift that is worth a warning
constexpr double kLeastLift = 1e-3;          // amplitude of shedding

torch::Tensor axis(double from, double to, int64_t count,
                   const torch::TensorOptions& where) {
  return torch::linspace(from, to, count, torch::kFloat64).to(where);
}

// Where lift rises through its mean, in steps, between two values linearly.
std::vector<double> rises(const std::vector<double>& lift, double mean) {
  std::vector<double> all;
  for (size_t n = 1; n < lift.size(); ++n) {
    const double before = lift[n - 1] - mean, after = lift[n] - mean;
    if (before < 0 && after >= 0) {
      all.push_back(static_cast<double>(n) - after / (after - before));
    }
  }
  return all;
}

// Half of the range of the values at [begin, end).
double amplitude(const std::vector<double>& values, double begin, double end) {
  const auto [least, most] = std::minmax_element(
      values.begin() + std::lround(begin), values.begin() + std::lround(end));
  return (*most - *least) / 2;
}

double mean(const std::vector<double>& values, double begin, double end) {
  const auto from = std::lround(begin), to = std::lround(end);
  double sum = 0;
  for (auto n = from; n < to; ++n) sum += values[n];
  return sum / static_cast<double>(to - from);
}

// Of the flow on the axis behind the cylinder, from its rear.
std::optional<double> recirculation_length(const WakeFlow& flow, double end) {
  constexpr int64_t kPoints = 4001;
  const auto x = axis(0.5, end, kPoints, flow.grid().options());
  const FlowWindow line(flow.grid(), x, torch::zeros_like(x));
  const auto u =
      line.sample(flow.stream(), torch::zeros_like(flow.stream())).u.cpu();
  const auto* at = u.data_ptr<double>();
  const double spacing = (end - 0.5) / static_cast<double>(kPoints - 1);
  for (int64_t n = kPoints - 1; n > 1; --n) {
    if (at[n - 1] >= 0) continue;
    const double between = at[n - 1] / (at[n - 1] - at[n]);
    return (static_cast<double>(n - 1) + between) * spacing;
  }
  return std::nullopt;
}

// The rows of the window, gathered while the flow is computed.
class Recorder {
 public:
  Recorder(const WakeOptions& o, const LogPolarGrid& grid)
      : x_(axis(o.x_min, o.x_max, o.columns, grid.options())),
        y_(axis(o.y_min, o.y_max, o.rows, grid.options())),
        window_(grid, x_.repeat({o.rows}), y_.repeat_interleave(o.columns)) {
    const auto shape = {o.snapshots, o.rows, o.columns};
    fields_ = {torch::empty(shape, torch::kFloat64),
               torch::empty(shape, torch::kFloat64),
               torch::empty(shape, torch::kFloat64)};
  }

  void keep(const WakeFlow& flow, double stream) {
    const auto head =
        total_head(flow.grid(), flow.stream(), flow.stream_rate(),
                   flow.vorticity(), flow.viscosity(), stream * stream / 2);
    const auto at = window_.sample(flow.stream(), head);
    const auto shape = fields_.u[0].sizes();
    const auto n = static_cast<int64_t>(times_.size());
    fields_.u[n].copy_(at.u.view(shape));
    fields_.v[n].copy_(at.v.view(shape));
    fields_.p[n].copy_(at.p.view(shape));
    times_.push_back(flow.time());
  }

  WakeData data() const {
    return {.x = x_.cpu(),
            .y = y_.cpu(),
            .t = torch::tensor(times_, torch::kFloat64),
            .fields = fields_};
  }

 private:
  torch::Tensor x_, y_;
  FlowWindow window_;
  FlowFields fields_;
  std::vector<double> times_;
};

void warn_if_unsettled(const WakeNumbers& numbers) {
  if (numbers.drift <= kSettled) return;
  log::warn(
      "the flow has not settled: {} changes by {:.1f} % over the "
      "snapshots; wake.start sets a later one",
      numbers.strouhal ? "the amplitude of the lift" : "the drag",
      100 * numbers.drift);
}

}  // namespace

void WakeOptions::describe(config::Schema& s) {
  flow.describe(s);
  const auto place = [&](const char* name, double& value, const char* help) {
    s.field(name, value,
            {.help = help, .unit = "D", .min = -1000, .max = 1000});
  };
  place("x_min", x_min, "left edge of the window; the cylinder is at 0");
  place("x_max", x_max, "right edge of the window");
  place("y_min", y_min, "lower edge of the window");
  place("y_max", y_max, "upper edge of the window");
  s.field("columns", columns,
          {.help = "points of the window along x",
           .min = 5,
           .max = 10000,
           .memory = true});
  s.field("rows", rows,
          {.help = "points of the window along y",
           .min = 5,
           .max = 10000,
           .memory = true});
  s.field("start", start,
          {.help = "time of the first snapshot, when the shedding has settled",
           .unit = "D/U",
           .min = 0,
           .max = 1e5});
  s.field(
      "snapshots", snapshots,
      {.help = "times that are kept", .min = 1, .max = 1e6, .memory = true});
  s.field("interval", interval,
          {.help = "time between snapshots",
           .unit = "D/U",
           .min = 1e-3,
           .max = 100});
}

void WakeOptions::validate() const {
  flow.validate();
  const auto expect_order = [](const char* key, double low, double high) {
    if (low < high) return;
    throw ConfigError(key,
                      fmt::format("expected more than {}, got {}", low, high));
  };
  expect_order("wake.x_max", x_min, x_max);
  expect_order("wake.y_max", y_min, y_max);
  const double nearest =
      std::hypot(std::clamp(0.0, x_min, x_max), std::clamp(0.0, y_min, y_max));
  if (nearest < 0.5) {
    throw ConfigError("wake.x_min",
                      "expected a window outside the cylinder, x² + y² = 1/4",
                      "the window of the paper is x 1 … 8, y -2 … 2");
  }
  const double farthest =
      std::hypot(std::max(std::abs(x_min), std::abs(x_max)),
                 std::max(std::abs(y_min), std::abs(y_max)));
  if (farthest > flow.sponge_radius) {
    throw ConfigError(
        "wake.x_max",
        fmt::format("expected a window within wake.sponge_radius = {}, got one "
                    "that reaches {:.4g}",
                    flow.sponge_radius, farthest),
        "beyond it the flow is smoothed; set a larger one with more modes");
  }
  if (columns * rows > kMaxValues / snapshots) {
    throw ConfigError("wake.snapshots",
                      fmt::format("expected at most {} values of a field, got "
                                  "{} x {} x {}",
                                  kMaxValues, snapshots, rows, columns));
  }
}

int64_t WakeOptions::steps_per_snapshot() const {
  return std::max<int64_t>(
      1, std::lround(std::ceil(interval / flow.time_step - 1e-9)));
}

double WakeOptions::time_step() const {
  return interval / static_cast<double>(steps_per_snapshot());
}

WakeNumbers force_numbers(const torch::Tensor& forces, double time_step) {
  const auto columns = forces.t().contiguous();
  const auto values = [&](int64_t row) {
    const auto* begin = columns[row].data_ptr<double>();
    return std::vector<double>(begin, begin + columns.size(1));
  };
  const auto drag = values(0), lift = values(1);
  const auto steps = static_cast<double>(lift.size());
  WakeNumbers numbers{.drag = mean(drag, 0, steps),
                      .lift_amplitude = amplitude(lift, 0, steps)};
  const auto at = rises(lift, mean(lift, 0, steps));
  if (at.size() < 2 || numbers.lift_amplitude < kLeastLift) {
    numbers.drift = std::abs(drag.back() / drag.front() - 1);
    return numbers;
  }
  numbers.periods = static_cast<int64_t>(at.size()) - 1;
  numbers.strouhal = static_cast<double>(numbers.periods) /
                     ((at.back() - at.front()) * time_step);
  numbers.drag = mean(drag, at.front(), at.back());
  numbers.lift_amplitude = amplitude(lift, at.front(), at.back());
  const double first = amplitude(lift, at[0], at[1]);
  const double last = amplitude(lift, at[at.size() - 2], at.back());
  numbers.drift = std::abs(last / first - 1);
  return numbers;
}

WakeData simulate_wake(const WakeOptions& o, const torch::Device& device) {
  const torch::NoGradGuard no_gradients;
  const double dt = o.time_step();
  const int64_t each = o.steps_per_snapshot();
  const int64_t before = std::lround(o.start / dt);
  const int64_t total = before + (o.snapshots - 1) * each;
  WakeFlow flow(o.flow, dt, device);
  Recorder recorder(o, flow.grid());
  std::vector<torch::Tensor> forces;
  Progress progress("wake", total);
  for (int64_t n = 0; n <= total; ++n) {
    if (n > 0) flow.step();
    if (n >= before) {
      forces.push_back(flow.forces());
      if ((n - before) % each == 0) recorder.keep(flow, o.flow.stream);
    }
    if (n % each != 0 && n != total) continue;
    flow.expect_finite();
    expect_no_stop();
    progress.update(n, [&] {
      const auto now = flow.forces().cpu();
      return fmt::format("time {:.1f}, drag {:.3f}, lift {:+.3f}", flow.time(),
                         now[0].item<double>(), now[1].item<double>());
    });
  }
  auto data = recorder.data();
  data.time_step = dt;
  data.numbers = force_numbers(torch::stack(forces).cpu(), dt);
  if (!data.numbers.strouhal) {
    data.numbers.recirculation =
        recirculation_length(flow, o.flow.sponge_radius);
  }
  const auto spacing = [](double from, double to, int64_t count) {
    return (to - from) / static_cast<double>(count - 1);
  };
  data.numbers.residual =
      flow_residual(data.fields, o.interval, spacing(o.y_min, o.y_max, o.rows),
                    spacing(o.x_min, o.x_max, o.columns), flow.viscosity());
  warn_if_unsettled(data.numbers);
  return data;
}

}  // namespace propagator::physics
