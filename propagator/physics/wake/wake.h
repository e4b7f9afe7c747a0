#pragma once

#include <optional>

#include "propagator/physics/wake/flow_window.h"
#include "propagator/physics/wake/wake_flow.h"

namespace propagator::physics {

// The flow past a cylinder, and the window of it that is kept: `snapshots`
// times from `start` on, at rows × columns points.
struct WakeOptions {
  WakeFlowOptions flow;
  double x_min = 1, x_max = 8, y_min = -2, y_max = 2;
  int64_t columns = 100, rows = 50;
  double start = 80;
  int64_t snapshots = 200;
  double interval = 0.1;

  void describe(config::Schema& schema);
  // ConfigError if the fields contradict one another.
  void validate() const;

  // Steps in an interval, and what each takes: at most flow.time_step.
  int64_t steps_per_snapshot() const;
  double time_step() const;
};

// What a run says of the flow, from the wall and from the window, over the time
// of the snapshots. Forces are over ½ U² D.
struct WakeNumbers {
  double drag = 0;            // mean; over whole periods where there are any
  double lift_amplitude = 0;  // half of its range
  std::optional<double> strouhal = {};  // frequency of the lift, where it sheds
  int64_t periods = 0;
  // From the rear stagnation point, x = 1/2, to where the flow on the axis
  // turns; where it does not shed.
  std::optional<double> recirculation = {};
  double drift =
      0;  // change of drag, or of the lift's amplitude, over the time
  FlowResidual residual = {};
};

struct WakeData {
  torch::Tensor x, y, t;  // (X), (Y), (T)
  FlowFields fields;      // (T, Y, X) each, on the CPU
  WakeNumbers numbers = {};
  double time_step = 0;
};

// Computes the flow from rest of its vorticity, and keeps the window. Tells
// this thread's observer how far it has come. NumericalError if it blows up.
WakeData simulate_wake(const WakeOptions& options, const torch::Device& device);

// The numbers of forces (steps, 2), drag and lift `time_step` apart.
WakeNumbers force_numbers(const torch::Tensor& forces, double time_step);

}  // namespace propagator::physics
