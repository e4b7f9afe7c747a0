#pragma once

#include "propagator/autodiff/jet.h"

namespace propagator::autodiff {

// a where the condition (…) holds and b elsewhere, entry by entry, with all
// coefficients: the derivatives of a piecewise function but for those at its
// seams. Shapes broadcast; a constant among the two does not move.
Jet choose(const torch::Tensor& condition, const Jet& a, const Jet& b);

}  // namespace propagator::autodiff
