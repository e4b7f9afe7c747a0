#pragma once

namespace propagator::report {

// report/assets/page.css, panels.js and page.js, built into the program so that
// a page needs nothing beside it. The parts of panels.js are for other pages
// too.
extern const char* const kPageStyle;
extern const char* const kPanelsScript;
extern const char* const kPageScript;

}  // namespace propagator::report
