#pragma once

#include "propagator/serve/http.h"

namespace propagator::serve {

// serve/assets/page.html, with places for what the pages of runs have too.
extern const char* const kPageText;

// The page on which models are tried by hand: one text of HTML, CSS and
// JavaScript. Its headers let a browser run this script alone, and send
// nothing to other servers.
Response page();

}  // namespace propagator::serve
