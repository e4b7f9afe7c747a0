#pragma once

#include "propagator/serve/http.h"

namespace propagator::serve {

// serve/assets/page.html and watch.html, with places for what the pages of runs
// have too.
extern const char* const kPageText;
extern const char* const kWatchPageText;

// The page on which models are tried by hand, and the one on which a training
// is watched: each one text of HTML, CSS and JavaScript. Its headers let a
// browser run this script alone, and send nothing to other servers.
Response page();
Response watch_page();

}  // namespace propagator::serve
