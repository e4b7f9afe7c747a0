#pragma once

#include <string>

#include "propagator/autodiff/derivative.h"

namespace propagator::pde {

// A line of PDE text as MathML, as it was written: u_xx with its indices below,
// exp(…) as a power of e, div(k*grad(u)) with nablas. Names keep standing for
// themselves; those of `symbols` tell how an index is read. What is no formula
// ("on boundary", "periodic x") are words between them. SyntaxError of a line
// that has no tokens of PDE text; any other has some form.
std::string typeset(const std::string& line, const autodiff::Symbols& symbols);

}  // namespace propagator::pde
