#pragma once

#include <string>

#include "propagator/autodiff/derivative.h"
#include "propagator/pde/text/tokens.h"

namespace propagator::pde {

using autodiff::Symbols;

// SyntaxErrors about a name in `text` that means nothing there: what kind of
// thing it looks like, which of its characters are wrong, what may be meant.
[[noreturn]] void fail_unknown_name(const std::string& text, const Token& name,
                                    const Symbols& symbols);
// If a derivative begins there as books have it: du/dt, d^2u/dx^2 or d2u/dx2.
void fail_as_quotient(const std::string& text, const Token& name,
                      const Symbols& symbols);
// As the first, for `name(`.
[[noreturn]] void fail_unknown_function(const std::string& text,
                                        const Token& name,
                                        const Symbols& symbols);

}  // namespace propagator::pde
