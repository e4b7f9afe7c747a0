#pragma once

#include <filesystem>

#include "propagator/data/simulator.h"
#include "propagator/physics/wake/wake_cycles.h"

namespace propagator::data {

// Periodic flows past a cylinder over a range of Reynolds numbers, as arrays
// `reynolds`, `strouhal` (R), `x` (X), `y` (Y) and `velocity` (R, 2H + 1, 2, Y,
// X): mean, cosine and sine of each harmonic in turn, of u and v.
class WakeCyclesSimulator : public Simulator {
 public:
  void describe(config::Schema& schema) override;
  void validate() const override { options_.validate(); }
  Simulated simulate(const Runtime& runtime) const override;
  std::vector<Validation> validations() const override;

 private:
  physics::WakeCyclesOptions options_;
};

// What such a file has. DataError if it is none.
physics::WakeCycles read_wake_cycles(const std::filesystem::path& path);

}  // namespace propagator::data
