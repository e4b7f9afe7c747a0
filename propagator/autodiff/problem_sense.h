#pragma once

#include "propagator/autodiff/problem.h"

namespace propagator::autodiff {

// ProblemError for an equation or a condition that says nothing of the fields,
// and for conditions on one face of which one says the same as the other, or
// contradicts it.
void check_sense(const Problem& problem);

}  // namespace propagator::autodiff
