#pragma once

#include "propagator/pde/text/problem.h"

namespace propagator::pde {

// Whether all that is unknown in a problem has a truth.
bool is_known(const Problem& problem);

// The problem of the fields that are solved for alone, with the truth in place
// of functions. All of them have one: std::bad_optional_access.
Problem with_known_functions(const Problem& problem);

}  // namespace propagator::pde
