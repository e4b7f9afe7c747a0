#pragma once

#include <vector>

#include "propagator/core/config.h"
#include "propagator/physics/wake/wake_flow.h"

namespace propagator::physics {

// At which Reynolds numbers the periodic flow past a cylinder is computed, and
// what of it is kept: mean and harmonics at rows × columns points of a window.
struct WakeCyclesOptions {
  // A coarse grid: a flow takes some twenty seconds of one core.
  WakeFlowOptions flow = {.modes = 32,
                          .rings = 97,
                          .outer_radius = 20,
                          .sponge_radius = 9,
                          .time_step = 0.01};
  double reynolds_min = 60, reynolds_max = 180;
  int64_t nodes = 8;
  int64_t harmonics = 4;
  double x_min = 1, x_max = 8, y_min = -2, y_max = 2;
  int64_t columns = 29, rows = 17;
  double settling = 60, recording = 30;

  void describe(config::Schema& schema);
  // ConfigError if the fields contradict one another.
  void validate() const;
};

// Flows that repeat themselves, at Reynolds numbers Re_r: velocities
//   u(Re, x, y, t) = a_0 + Σ_k a_k cos kφ + b_k sin kφ,  φ = 2π St t + phase,
// with the phase 0 where the first harmonic of the lift is highest. Between the
// Re_r, coefficients and St are the polynomial in 1/Re through theirs, whose
// places are those of Chebyshev.
struct WakeCycles {
  torch::Tensor reynolds;  // (R), rising
  torch::Tensor strouhal;  // (R)
  torch::Tensor x, y;      // (X), (Y)
  torch::Tensor velocity;  // (R, 2H + 1, 2, Y, X): of u and v

  int64_t harmonics() const { return (velocity.size(1) - 1) / 2; }
  // DataError, which begins with `name`, if these are no such flows.
  void expect_whole(const std::string& name) const;

  // The same at sensors (S) inside the window: (R, 2H + 1, 2, S), by cubics
  // through the four nearest points along each axis.
  torch::Tensor at_sensors(const std::vector<double>& sensor_x,
                           const std::vector<double>& sensor_y) const;
  // Of values (R, …) at other Reynolds numbers (N): (N, …).
  torch::Tensor interpolate(const torch::Tensor& values,
                            const torch::Tensor& at) const;
};

// How good they are, as root mean squares over window and period over that of
// the flow's own fluctuation.
struct WakeCyclesNumbers {
  // What the harmonics leave of the recorded flow, at the worst Re_r.
  double left_out = 0;
  double drift = 0;  // of the lift's amplitude while recorded, the worst
  // At Reynolds numbers that the table does not have: halfway in 1/Re from the
  // lowest to the next, and in the middle.
  struct HeldOut {
    double reynolds, strouhal, strouhal_error, velocity_error;
  };
  std::vector<HeldOut> held_out = {};
};

struct SimulatedCycles {
  WakeCycles cycles;
  WakeCyclesNumbers numbers;
};

// Computes them, each flow from the one at the next Reynolds number. Tells
// this thread's observer how far it has come. NumericalError if one blows up or
// sheds no vortices.
SimulatedCycles simulate_wake_cycles(const WakeCyclesOptions& options,
                                     const torch::Device& device);

}  // namespace propagator::physics
