#pragma once

#include <string>

namespace propagator::report {

// Text with &, <, > and quotes as HTML spells them.
std::string escaped(const std::string& text);

}  // namespace propagator::report
