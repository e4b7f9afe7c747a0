#pragma once

#include "propagator/physics/fields/field_problem.h"
#include "propagator/physics/heat_plate.h"

namespace propagator::physics {

// The heated plates of the task forecast (heat_plate.h) as fields: with the
// same seed plate n is that of a forecast of plates. y rises from the bottom,
// where a plate's rows go down. Where the time step makes every diffusivity the
// same, a frame's time is α t, else t. Values (N, T, Y, X, 1).
class Plates : public FieldProblem {
 public:
  void describe(config::Schema& schema) override { plate_.describe(schema); }
  void validate() const override;
  FieldLayout layout() const override;
  FieldCases solve(const CaseRange& range) const override;
  std::map<std::string, double> assess(const CaseRange& range,
                                       const FieldCases& found,
                                       FieldCheck check) const override;
  torch::Tensor continued(const torch::Tensor& states,
                          const torch::Tensor& parameters,
                          int64_t count) const override;
  bool continues() const override { return true; }
  FieldGrid grid() const override { return FieldGrid::kEnds; }
  int64_t cases_at_once() const override { return 64; }

 private:
  HeatPlateOptions plate_;
};

}  // namespace propagator::physics
