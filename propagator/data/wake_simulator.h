#pragma once

#include "propagator/data/simulator.h"
#include "propagator/physics/wake/wake.h"

namespace propagator::data {

// The flow past a circular cylinder as arrays `u`, `v`, `p` (T, Y, X) at times
// `t` (T) and points `x` (X), `y` (Y).
class WakeSimulator : public Simulator {
 public:
  void describe(config::Schema& schema) override;
  void validate() const override { options_.validate(); }
  Simulated simulate(const Runtime& runtime) const override;
  std::vector<Validation> validations() const override;

 private:
  physics::WakeOptions options_;
};

}  // namespace propagator::data
