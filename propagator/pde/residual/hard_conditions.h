#pragma once

#include <memory>
#include <vector>

#include "propagator/autodiff/field_net.h"
#include "propagator/pde/residual/slab_chain.h"

namespace propagator::pde {

// Which conditions may be hard constraints.
struct HardChoice {
  bool corners = false;  // initial ones too whose corners an answer then keeps
  bool faces = false;    // Dirichlet ones beside initial ones
};

// The conditions of a problem that a network's answer meets by its form: those
// that give a field at first or, beside it, its first derivative by time, with
// a constant factor, and those that give it on a face. The answer keeps a
// corner of what they give, and a jump of it where it is periodic, for ever:
// such a field, and one with any other condition at first, is left to the loss;
// so is a face that disagrees with others where they meet. It keeps nothing of
// the problem but copies.
class HardConditions {
 public:
  HardConditions() = default;
  explicit HardConditions(const Problem& problem, HardChoice choice = {});

  bool has(const Condition& condition) const;
  // A network whose answers meet them; `network` becomes a part of it.
  std::shared_ptr<autodiff::FieldNet> build_into(
      std::shared_ptr<autodiff::FieldNet> network) const;
  // The same of a chain of slabs, with a network for each.
  std::shared_ptr<SlabChain> build_into(
      SlabTime time,
      std::vector<std::shared_ptr<autodiff::FieldNet>> networks) const;

 private:
  void take_initial(const Problem& problem, bool with_corners);
  void take_faces(const Problem& problem, bool with_corners);

  std::vector<HardForm> forms_;  // of each field
  std::vector<Condition> met_;
};

}  // namespace propagator::pde
