#pragma once

#include <optional>

#include "propagator/pde/text/problem.h"

namespace propagator::pde {

// What a condition with one derivative of a field gives on its face: its
// residual is factor · derivative + rest, so that the derivative is
// −rest / factor there.
struct ConditionValue {
  double factor = 1;
  Expression rest = {};

  Jet at(const std::vector<Jet>& variables) const {
    return rest.evaluate({variables, {}}) * (-1 / factor);
  }
  bool is_zero() const { return rest.constant().value_or(1) == 0; }
};

// That, if the factor is a constant and an answer may keep the formula
// everywhere: it has all derivatives that the problem names, and neither a
// corner nor a jump where the domain is periodic. `with_corners`: also where it
// has those.
std::optional<ConditionValue> value_of(const Problem& problem,
                                       const Condition& condition,
                                       bool with_corners);

// Whether a formula that holds on a condition's face goes around a periodic
// domain as a smooth function does: with its first derivatives, not only with
// those that the periodic condition matches.
bool goes_around(const Problem& problem, const Condition& face,
                 const Condition& periodic, const Expression& formula);

// Points of the domain, moved to where a variable has this value.
torch::Tensor points_where(const Problem& problem, int64_t variable,
                           double value);

}  // namespace propagator::pde
