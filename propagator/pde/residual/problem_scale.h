#pragma once

#include <string>
#include <vector>

#include "propagator/pde/text/problem.h"

namespace propagator::pde {

// How large what a problem is about is, in the units that it is written in:
// metres and kelvins make numbers that a network and its loss cannot begin
// with. A field is as large as conditions give it or, where they give zero, as
// the source of an equation makes it; an equation as its largest term then is.
// A problem whose numbers are all near 1 has no scale of its own.
class ProblemScale {
 public:
  ProblemScale() = default;
  explicit ProblemScale(const Problem& problem);

  bool empty() const { return fields_.empty(); }
  const std::vector<double>& fields() const { return fields_; }
  // By what a residual is divided: 1 of a problem without a scale.
  double of_equation(size_t number) const;
  double of_condition(size_t number) const;
  double of_matched(const Derivative& derivative) const;
  // "x by 0.005, t by 1800, u by 300"
  std::string text(const Symbols& symbols) const;

 private:
  bool is_near_one(const Problem& problem) const;

  std::vector<double> lengths_;  // half of each variable's interval
  std::vector<double> fields_;
  std::vector<double> equations_, conditions_;
};

}  // namespace propagator::pde
