#pragma once

#include <set>
#include <string>

#include "propagator/pde/text/problem.h"

namespace propagator::testing {

// The problems that come with the program, by their names.
std::set<std::string> problem_names();
pde::Problem problem_named(const std::string& name);

}  // namespace propagator::testing
