#pragma once

#include <string>
#include <vector>

#include "propagator/pde/text/problem.h"

namespace propagator::pde {

// What a problem's conditions are to a system with as many rows as unknowns:
// along each variable a field takes as many conditions as its equations have
// order there, and those beyond are left out, because they follow from the
// others or contradict them.
struct SpectralPlan {
  struct Row {
    const pde::Condition* condition;
    int64_t matched;  // which of a periodic condition, or -1
    int64_t owner;    // the field that has an unknown more for it
  };

  // UsageError if there are not as many equations as fields. The problem must
  // outlive the plan.
  explicit SpectralPlan(const pde::Problem& problem);

  int64_t count(int64_t field, int64_t variable) const {
    return counts[static_cast<size_t>(field)][static_cast<size_t>(variable)];
  }

  // Whether elements may stand side by side along the divided variable.
  bool divisible() const;

  const pde::Problem& problem;
  std::vector<std::vector<int64_t>> orders;  // of field and variable
  std::vector<std::vector<int64_t>> counts;  // of conditions, the same way
  std::vector<std::vector<Row>> rows;        // of each variable
  std::vector<std::string> left_out;         // as written
  // The variable whose conditions all stand at its low end, so that the
  // solution can be continued from there piece by piece; t before others. And
  // the first variable that is not it. -1 if there is none.
  int64_t marched = -1, divided = -1;

 private:
  bool complete(size_t variable) const;
};

}  // namespace propagator::pde
