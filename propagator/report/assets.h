#pragma once

namespace propagator::report {

// report/assets/page.css and page.js, built into the program so that a page
// needs nothing beside it.
extern const char* const kPageStyle;
extern const char* const kPageScript;

}  // namespace propagator::report
