#pragma once

#include <memory>

#include "propagator/data/simulator.h"
#include "propagator/physics/fields/field_problem.h"

namespace propagator::data {

// How many cases of a problem are drawn, and which.
struct FieldCaseOptions {
  int64_t cases = 100, first = 0, seed = 0, batch = 0;
  physics::FieldCheck check = physics::FieldCheck::kRefined;

  void describe(config::Schema& schema);
};

// A family of initial-value problems as a file of fields (field_file.h).
class FieldSimulator : public Simulator {
 public:
  FieldSimulator(std::unique_ptr<physics::FieldProblem> problem, int64_t cases,
                 std::vector<Validation> validations);

  void describe(config::Schema& schema) override;
  void validate() const override;
  bool computes_in(Precision precision) const override;
  Simulated simulate(const Runtime& runtime) const override;
  std::vector<Validation> validations() const override { return rows_; }

 private:
  std::unique_ptr<physics::FieldProblem> problem_;
  std::vector<Validation> rows_;
  FieldCaseOptions options_;
};

// All of them, for `simulators`.
Kinds<Simulator> field_simulators();

}  // namespace propagator::data
