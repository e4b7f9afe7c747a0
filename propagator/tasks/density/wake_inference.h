#pragma once

#include <mutex>

#include "propagator/core/config.h"
#include "propagator/physics/wake/wake_cycles.h"
#include "propagator/tasks/density/inference.h"
#include "propagator/tasks/density/uniform_prior.h"

namespace propagator::tasks {

// Sensors in the wake of a cylinder that read the velocity u, v at some times,
// `interval` apart. Lengths are in diameters, times in diameters over the speed
// of the stream.
struct WakeInferenceOptions {
  std::string file = "data/wake-cycles.h5";
  std::vector<std::string> simulation = {};
  std::vector<std::string> sensors = {"2 0.5", "3.5 -0.5", "6 0.75"};
  int64_t times = 6;
  double interval = 1;
  double noise = 0.1;
  double reynolds_min = 60, reynolds_max = 180;

  void describe(config::Schema& schema);
};

// Which Reynolds number has a wake, given noisy readings of some sensors? It is
// uniform before anything is observed, and nobody knows at which phase of the
// shedding the readings begin: that is integrated out. Flows are those of a
// table of periodic ones, interpolated in Re,
//   F(Re, phase) = Σ_k coefficients_k(Re) · (cos k phase, sin k phase),
// so integrals over both are sums on a grid.
class WakeInference : public Inference {
 public:
  // ConfigError if these contradict one another.
  explicit WakeInference(const WakeInferenceOptions& options);

  std::vector<std::string> unknowns() const override { return {"Re"}; }
  std::vector<std::string> observed() const override;
  std::string describe() const override;
  nn::Supports supports() const override { return prior_.supports(); }
  // These read the table when first called: FileError or DataError if it is
  // not there, or has not the Reynolds numbers or the places.
  Pairs draw(int64_t seed, int64_t begin, int64_t count) const override;
  // The maximum of the likelihood over Re and phase, a little off the edges of
  // the prior.
  torch::Tensor estimate(const torch::Tensor& observed) const override;
  std::string name_of_estimate() const override { return "maximum likelihood"; }
  torch::Tensor log_joint(const torch::Tensor& unknown,
                          const torch::Tensor& observed) const override;
  std::optional<torch::Tensor> log_evidence(
      const torch::Tensor& observed) const override;

  // Readings without noise at Reynolds numbers and phases (N): (N, readings),
  // times fastest, then u and v, then sensors.
  torch::Tensor readings_of(const torch::Tensor& reynolds,
                            const torch::Tensor& phase) const;

 private:
  // What was read of the table, and sums over it.
  struct Table {
    physics::WakeCycles cycles;
    torch::Tensor sensors;   // (R, 2H + 1, 2, S)
    torch::Tensor reynolds;  // (G), evenly spaced from edge to edge
    torch::Tensor flows;     // (G P, readings), at P phases each
    torch::Tensor squares;   // (G P): |flow|² / 2
    torch::Tensor columns;   // (P, 2H + 1), of the phases
  };
  const Table& table() const;
  Table read_table() const;
  // DataError if the flows do not reach as far as the prior and the sensors.
  void expect_in_range(const physics::WakeCycles& cycles) const;
  // (N, 2H + 1, readings): harmonics of the phase at the first time.
  torch::Tensor coefficients(const Table& table,
                             const torch::Tensor& reynolds) const;
  // log p(observed | Re, phase) + |observed|² / 2σ² at all of the grid but for
  // a constant: (N, G, P).
  torch::Tensor heights(const Table& table, const torch::Tensor& rows) const;
  int64_t readings() const;

  WakeInferenceOptions options_;
  UniformPrior prior_;
  std::vector<double> x_, y_;  // of the sensors
  mutable std::once_flag once_;
  mutable Table table_;
};

}  // namespace propagator::tasks
