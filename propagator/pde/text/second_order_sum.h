#pragma once

#include <map>

#include "propagator/autodiff/derivative.h"

namespace propagator::pde {

using autodiff::Derivative;
using autodiff::SecondOrderSum;

// Factors of second derivatives, field by field.
std::map<int64_t, SecondOrderSum> sums_of_fields(
    const std::map<Derivative, double>& factors);

// Whether one sum is the other times a number that is not zero.
bool are_multiples(const SecondOrderSum& a, const SecondOrderSum& b);

}  // namespace propagator::pde
