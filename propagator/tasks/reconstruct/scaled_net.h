#pragma once

#include <memory>
#include <vector>

#include "propagator/models/field_net.h"
#include "propagator/pde/text/sought_range.h"
#include "propagator/tasks/reconstruct/function_net.h"
#include "propagator/tasks/reconstruct/spread_net.h"

namespace propagator::tasks {

// A network whose answers are of the size of readings: y = shift + scale · N.
// Both begin as 0 and 1 and are taken from the readings before training; they
// are part of the model's file. So are parameters of the equations that are
// sought, each as the logarithm of what it is over where the search began, so
// that it keeps its sign; one that began at 0 as itself; one with bounds as
// what their map takes. Functions that are sought are answers behind the
// network's fields. Where a SpreadNet says how sure the fields are, its answers
// follow theirs.
class ScaledNet : public models::FieldNet {
 public:
  struct Parts {
    std::shared_ptr<models::FieldNet> network;
    int64_t fields = 1;  // of the network; what else it answers comes last
    std::vector<std::shared_ptr<FunctionNet>> functions = {};
    std::shared_ptr<SpreadNet> spreads = {};  // may be null
  };
  ScaledNet(Parts parts, int64_t outputs,
            const std::vector<pde::Unknown>& unknowns);

  autodiff::Jet forward(const autodiff::Jet& points) override;
  void initialise(int64_t seed) override;
  void observe(const autodiff::Observations& read) override {
    parts_.network->observe(read);
  }
  std::shared_ptr<void> hold() override { return parts_.network->hold(); }
  torch::Tensor unknowns() const override;
  // Both (outputs).
  void set(const torch::Tensor& shift, const torch::Tensor& scale);

 private:
  Parts parts_;
  torch::Tensor shift_, scale_;
  torch::Tensor sought_, starts_;  // (K)
  std::vector<std::optional<pde::SoughtRange>> ranges_;
};

}  // namespace propagator::tasks
