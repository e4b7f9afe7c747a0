#pragma once

#include <string>
#include <vector>

#include "propagator/physics/fields/field_problem.h"

namespace propagator::testing {

// A problem with these keys of the section `field`.
template <class Problem>
struct With {
  explicit With(const std::vector<std::string>& settings) {
    config::Schema schema;
    schema.section("field", problem);
    config::Document document;
    for (const auto& one : settings) document.override_with("field." + one);
    document.apply_to(schema);
    problem.validate();
  }
  // Numbers of case 0.
  std::map<std::string, double> assess(physics::FieldCheck check) const {
    const physics::CaseRange range{.seed = 5};
    return problem.assess(range, problem.solve(range), check);
  }
  Problem problem;
};

}  // namespace propagator::testing
