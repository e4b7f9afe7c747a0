#pragma once

#include <string>

#include "propagator/report/figure.h"

namespace propagator::report {

// A grid of maps as HTML: each panel a small picture of one pixel a cell, with
// axes, titles and colour bars as text of the page, so that it follows the
// reader's colours and size of type, and panels stack on a phone. Empty if this
// build has no libpng. Texts of the figure are data: all are escaped.
std::string map_grid(const HeatMaps& maps);

// The colours of both scales as custom properties of a style sheet, which the
// grids' colour bars use: "--sequential: #001122, …; --diverging: …;"
std::string scale_properties();

}  // namespace propagator::report
