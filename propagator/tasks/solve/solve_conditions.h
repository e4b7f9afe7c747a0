#pragma once

#include <memory>
#include <string>
#include <vector>

#include "propagator/models/field_net.h"
#include "propagator/pde/residual/hard_conditions.h"
#include "propagator/pde/residual/periodic_embedding.h"
#include "propagator/tasks/solve/solve_options.h"

namespace propagator::tasks {

// The conditions of a problem, as its solution meets them: some are hard
// constraints of the network, the others are learned, as terms of the loss.
class SolveConditions {
 public:
  SolveConditions() = default;
  // The problem must outlive it.
  // Without `values_too` only periodic ones are hard: what readings are fitted
  // to is the field itself then, not a network behind a factor.
  SolveConditions(const pde::Problem& problem, HardConstraints hard,
                  bool values_too = true);

  // Holds at a time; else on another face.
  bool is_initial(const pde::Condition& condition) const;
  bool is_hard(const pde::Condition& condition) const;
  // As the problem has them.
  const std::vector<const pde::Condition*>& learned() const { return learned_; }
  // The first that is learned on a condition's face: its points are those of
  // the others there too.
  const pde::Condition& first_on_face(const pde::Condition& condition) const;
  // Of a condition, no other one's.
  const std::string& name_of(const pde::Condition& condition) const;

  // What a network on the domain sees behind the hard constraints.
  models::FieldDomain seen(const models::FieldDomain& domain) const {
    return periodic_.seen(domain);
  }
  // Which coordinates of that belong to a variable of the domain.
  std::vector<int64_t> columns_of(int64_t variable) const {
    return periodic_.columns_of(variable, std::ssize(problem_->domain));
  }
  // A network that sees that, with the hard constraints; it owns all that they
  // need.
  std::shared_ptr<models::FieldNet> build_into(
      std::shared_ptr<models::FieldNet> network) const;
  // The same of a chain of slabs, with a network for each.
  std::shared_ptr<pde::SlabChain> build_into(
      pde::SlabTime time,
      std::vector<std::shared_ptr<models::FieldNet>> networks) const;

 private:
  const pde::Problem* problem_ = nullptr;
  std::vector<std::string> names_;
  pde::HardConditions given_;
  pde::PeriodicEmbedding periodic_;
  std::vector<const pde::Condition*> learned_;
};

}  // namespace propagator::tasks
