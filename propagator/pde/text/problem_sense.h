#pragma once

#include <string>
#include <vector>

#include "propagator/pde/text/problem.h"

namespace propagator::pde {

// ProblemError for an equation or a condition that says nothing of the fields,
// and for conditions on one face of which one says the same as the other, or
// contradicts it.
void check_sense(const Problem& problem);

// Of conditions that give a field two values where their faces meet: both, the
// place and the values.
std::vector<std::string> jumps_of_conditions(const Problem& problem);

// Of fields with derivatives by space, parts of the edge of a domain of shapes
// on which no condition names them.
std::vector<std::string> bare_parts_of_edge(const Problem& problem);

}  // namespace propagator::pde
