#pragma once

#include "propagator/autodiff/jet.h"
#include "propagator/pde/text/problem.h"

namespace propagator::pde {

// Bounds within which something is sought, as a smooth map of any number z:
//   low + (high − low) σ(z),   σ(z) = 1 / (1 + e⁻ᶻ),
// or, where both are positive and a factor of 10 or more apart, the same of
// their logarithms. z = 0 is the middle.
class SoughtRange {
 public:
  explicit SoughtRange(const Interval& bounds);

  Jet operator()(const Jet& z) const;
  double at(double z) const;
  double middle() const { return at(0); }

 private:
  bool geometric_;
  Interval ends_;  // or their logarithms
};

}  // namespace propagator::pde
