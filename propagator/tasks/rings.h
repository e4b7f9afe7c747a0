#pragma once

#include <memory>
#include <vector>

#include "propagator/autodiff/problem.h"
#include "propagator/models/field_net.h"

namespace propagator::tasks {

// The variables of a problem that are rings, and how a network is put on them:
// it sees the cosine and the sine of the angle on the ring in place of the
// variable, so that its answer is periodic in all derivatives. A condition that
// asks for less than the equations leave free is left to the loss.
class Rings {
 public:
  Rings() = default;
  explicit Rings(const autodiff::Problem& problem);

  bool has(const autodiff::Condition& condition) const;
  // What the network sees: the cosine in the variable's place, the sines
  // behind all others.
  models::FieldDomain seen(const models::FieldDomain& domain) const;
  // `network` with such inputs, as one on the domain.
  std::shared_ptr<models::FieldNet> close(
      std::shared_ptr<models::FieldNet> network) const;

 private:
  struct Ring {
    int64_t variable;
    double low, length;
  };
  friend class OnRings;
  std::vector<Ring> rings_;
};

}  // namespace propagator::tasks
