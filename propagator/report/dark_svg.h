#pragma once

#include <string>

namespace propagator::report {

// A picture that gnuplot wrote, for a page that may be dark: its ground lets
// the page through, and a style inside it gives its greys and the colours of
// series lighter ones where the reader's setting is dark.
std::string with_dark_style(std::string svg);

}  // namespace propagator::report
