#pragma once

#include <optional>
#include <utility>
#include <variant>

#include "propagator/report/colour.h"
#include "propagator/report/field_series.h"

namespace propagator::report {

// Figures as what they show, not how: gnuplot.h draws them.

struct Series {
  enum class Style { kLine, kPoints, kDashed };
  std::string name = "";  // in the legend; empty: not there
  std::vector<double> x = {}, y = {};
  Style style = Style::kLine;
  // Which of the colours of series; by default that of its place among them.
  std::optional<size_t> colour = {};
};

// What is between two curves, filled in the first series' colour.
struct Band {
  std::string name = "";  // in the legend; empty: not there
  std::vector<double> x = {}, low = {}, high = {};
  double opacity = 0.2;
};

// A place on the x axis worth a mark: a vertical line with its label.
struct Event {
  double x;
  std::string label;
};

struct LinePlot {
  std::string title = "";
  Axis x = {}, y = {};  // first = last: the range follows the data
  std::vector<Series> series = {};
  std::vector<Event> events = {};
  std::vector<Band> bands = {};  // below the series, the first lowest
  bool square = false;           // a unit is as long on both axes
};

struct BarChart {
  std::string title = "";
  Axis y = {};
  std::vector<std::string> categories = {};
  struct Bars {
    std::string name;
    std::vector<double> values;  // one a category
  };
  std::vector<Bars> bars = {};
};

// Points over a panel, at places on its axes.
struct Dots {
  std::vector<double> x = {}, y = {};
  // Colours on the scale of the row, NaN for a point without one; none of any:
  // small points that leave the panel to be seen.
  std::vector<double> values = {};
};

// A matrix as colours. Row 0 is drawn at the top; NaN cells are grey.
struct Panel {
  std::string title = "";
  torch::Tensor values = {};  // (R, C); undefined: the place stays empty
  std::vector<std::pair<double, double>> outline = {};  // a line drawn over it
  std::vector<double> rulers = {};  // x of white lines from top to bottom
  Dots dots = {};
  std::optional<std::pair<double, double>> cross = {};  // one place to point at
};

// Panels beside one another on one scale, with its colour bar.
struct PanelRow {
  std::string label = "";      // in front of the row
  std::string bar_label = "";  // of the colour bar, with the unit
  Scale scale = Scale::kSequential;
  std::vector<Panel> panels = {};
  bool bar = true;   // show the scale
  bool log = false;  // values below its low end, zeros too, take that colour
  // Of the scale; by default from the values, about zero if it diverges, and a
  // logarithmic one from the power of ten below a tenth of the panels' smallest
  // root mean square to the largest value.
  std::optional<std::pair<double, double>> range = {};
};

// A grid of panels that all have the same axes.
struct HeatMaps {
  std::string title = "";
  Axis x = {}, y = {};
  std::vector<PanelRow> rows = {};
  double panel_width = 230;  // pixels
  double panel_height = 230;
};

// Points in space and what was measured at them, seen from an angle.
struct Scene {
  std::string title = "";
  std::string value_label = "";  // of the colour bar, with the unit
  torch::Tensor points = {};     // (N, 3)
  torch::Tensor values = {};     // (N); NaN: not known
  std::string known_name = "", unknown_name = "";  // in the legend
  std::vector<torch::Tensor> lines = {};           // (K, 3) each, the outline
  struct Mark {
    std::string name;
    torch::Tensor place;  // (3)
  };
  std::vector<Mark> marks = {};
};

using Figure = std::variant<LinePlot, BarChart, HeatMaps, Scene>;

// Where the cells of an axis lie: centre of cell 0, distance, outer edges.
struct Cells {
  double first, step, begin, end;

  Cells(const Axis& axis, int64_t count)
      : first(axis.first),
        step(count > 1
                 ? (axis.last - axis.first) / static_cast<double>(count - 1)
                 : 1),
        begin(first - step / 2),
        end(first + step * (static_cast<double>(count) - 0.5)) {}
};

// The numbers of a tensor, in order, for a series.
std::vector<double> numbers(const torch::Tensor& values);

// Limits of a row's scale: as given, or of its values.
std::pair<double, double> limits(const PanelRow& row);

}  // namespace propagator::report
