#pragma once

#include "propagator/report/figure.h"

namespace propagator::report {

// Where the legend of a line plot stands: in the corner of the plot that curves
// leave free. Where they leave none, the y axis is given room for it above
// them, unless its range was set.
struct LegendPlace {
  std::string place;       // as gnuplot names it: "inside top right"
  double y_first, y_last;  // of the axis
};

// `plot` with both ranges set, what they are of.
LegendPlace place_legend(const LinePlot& plot, bool y_is_free);

}  // namespace propagator::report
