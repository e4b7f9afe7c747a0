#pragma once

#include <string>

#include "propagator/autodiff/derivative.h"
#include "propagator/autodiff/tokens.h"

namespace propagator::autodiff {

// SyntaxErrors about a name in `text` that means nothing there: what kind of
// thing it looks like, which of its characters are wrong, what may be meant.
[[noreturn]] void fail_unknown_name(const std::string& text, const Token& name,
                                    const Symbols& symbols);
// The same for `name(`.
[[noreturn]] void fail_unknown_function(const std::string& text,
                                        const Token& name,
                                        const Symbols& symbols);

}  // namespace propagator::autodiff
