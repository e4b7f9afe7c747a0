#pragma once

#include <memory>
#include <string>
#include <vector>

#include "propagator/autodiff/field_net.h"
#include "propagator/pde/text/problem.h"

namespace propagator::pde {

// What is added to a network's fields where the domain has corners that point
// inwards. Around one of angle w > pi the solutions of an elliptic equation
// that are zero on its sides are sums of r^a cos(a phi), r^2a sin(2a phi) and
// smoother ones, with a = pi/w and phi from the middle of the angle: their
// slopes are infinite there, and a smooth network has nothing of the kind. So a
// field is N + c_1 r^a cos(a phi) + c_2 r^2a sin(2a phi), with numbers c of its
// own for each corner that are trained beside the network. Corners come from
// the shape of the domain alone. A problem whose equations have no second
// derivatives along both variables of the plane has none.
class CornerTerms {
 public:
  CornerTerms() = default;
  explicit CornerTerms(const Problem& problem);

  // "r^0.667 around (0, 0)"
  const std::vector<std::string>& texts() const { return texts_; }
  // The network with these terms; `sizes` of the fields, or none, are what c is
  // in units of.
  std::shared_ptr<autodiff::FieldNet> add_to(
      std::shared_ptr<autodiff::FieldNet> network,
      std::vector<double> sizes) const;

 private:
  size_t fields_ = 1;
  std::vector<Expression> formulas_;  // two of each corner
  std::vector<std::string> texts_;
};

}  // namespace propagator::pde
