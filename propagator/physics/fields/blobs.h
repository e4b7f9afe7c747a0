#pragma once

#include "propagator/physics/fields/field_problem.h"

namespace propagator::physics {

// Gaussians on the unit square, periodic, all of a case carried by one constant
// velocity: u_t + v·∇u = 0. Each frame is the sum of the Gaussians and their
// periodic images where they are by then, so that there is no error of a
// scheme. Values (N, T, X, Y, 1).
class Blobs : public FieldProblem {
 public:
  void describe(config::Schema& schema) override;
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
  std::vector<std::string> conserved() const override { return {"density"}; }
  int64_t cases_at_once() const override { return 64; }

 private:
  int64_t points_ = 32;
  FieldTimes times_{50, 1};
  int64_t blobs_min_ = 1, blobs_max_ = 3;
  double speed_ = 1;
  double width_min_ = 0.06, width_max_ = 0.12;
  double amplitude_min_ = 0.5, amplitude_max_ = 1;
};

}  // namespace propagator::physics
