#pragma once

#include <string>
#include <vector>

#include "propagator/autodiff/derivative.h"

namespace propagator::pde {

// What a name means that is a field, or a derivative of one: that alone, or
// those of the real and the imaginary part of a complex field; else nothing.
std::vector<autodiff::Derivative> parts_named(const std::string& name,
                                              const autodiff::Symbols& symbols);

}  // namespace propagator::pde
