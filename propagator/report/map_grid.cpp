#include "propagator/report/map_grid.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <tuple>

#include "propagator/core/base64.h"
#include "propagator/report/gnuplot_script.h"
#include "propagator/report/html.h"
#include "propagator/report/png.h"

namespace propagator::report {
namespace {

// More cells along an edge than a screen shows are averaged.
constexpr int64_t kMostCells = 400;
// Units along an edge of what is drawn over a picture.
constexpr double kUnits = 1000;

torch::Tensor on_screen(const torch::Tensor& values) {
  auto cells = values.detach().to(torch::kCPU, torch::kFloat64);
  const auto stride = [&](int64_t axis) {
    return (cells.size(axis) + kMostCells - 1) / kMostCells;
  };
  const int64_t down = stride(0), right = stride(1);
  if (down == 1 && right == 1) return cells;
  return torch::avg_pool2d(cells.unsqueeze(0), {down, right}, {down, right}, 0,
                           /*ceil_mode=*/true, /*count_include_pad=*/false)
      .squeeze(0);
}

// Values and limits of a row as its colours take them: logarithms where the
// scale is logarithmic.
struct ColourScale {
  Scale scale;
  bool log;
  double low, high;

  explicit ColourScale(const PanelRow& row) : scale(row.scale), log(row.log) {
    std::tie(low, high) = limits(row);
    if (log) low = std::log10(low), high = std::log10(high);
  }
  torch::Tensor taken(const torch::Tensor& values) const {
    return log ? values.clamp_min(std::pow(10, low)).log10() : values;
  }
  double taken(double value) const {
    return log ? std::log10(std::max(value, std::pow(10, low))) : value;
  }
  double share(double value) const {
    return high > low ? (taken(value) - low) / (high - low) : 0.5;
  }
};

std::string picture(const torch::Tensor& values, const ColourScale& colours) {
  const auto cells = colours.taken(on_screen(values));
  Image image(cells.size(1), cells.size(0));
  image.field(0, 0, 1, cells, colours.scale, colours.low, colours.high);
  return base64(png_of(image));
}

// A place on an axis, as a share of the way from its first edge to its last.
double share_of(const Cells& cells, double place) {
  return (place - cells.begin) / (cells.end - cells.begin);
}

// Numbers between two ends, `step` apart, without those that rounding spoils.
std::vector<double> ticks_between(double first, double last, double step) {
  std::vector<double> ticks;
  const double low = std::min(first, last), high = std::max(first, last);
  if (!(step > 0) || !std::isfinite(low) || !std::isfinite(high)) return ticks;
  const double slack = 1e-9 * (high - low);
  for (double k = std::ceil((low - slack) / step); k * step <= high + slack;
       ++k) {
    ticks.push_back(k == 0 ? 0 : k * step);
    if (ticks.size() > 100) return {};  // steps that a number cannot hold
  }
  return ticks;
}

std::string tick(const std::string& text, double share) {
  return fmt::format("<span style=\"--at:{:.2f}%\">{}</span>", 100 * share,
                     escaped(text));
}

std::string axis_html(char which, const Axis& axis, const Cells& cells,
                      double pixels) {
  const double extent = cells.end - cells.begin;
  const double step =
      axis.ticks > 0 ? axis.ticks
                     : tick_step(extent, pixels / (which == 'x' ? 45 : 35));
  auto text = fmt::format("<div class=\"map-{}\">", which);
  for (const double value : ticks_between(cells.begin, cells.end, step)) {
    text += tick(fmt::format("{:.6g}", value), share_of(cells, value));
  }
  return text + fmt::format("<b>{}</b></div>", escaped(axis.label));
}

// Colours of a number of points, as one path each: lines of no length with
// round ends are dots of one size at whatever shape the picture has.
std::string dot_paths(const Dots& dots, const ColourScale& colours,
                      const std::function<std::string(double, double)>& at) {
  const auto path = [](const std::string& d, const std::string& colour,
                       double width) {
    return fmt::format("<path d=\"{}\" stroke=\"{}\" stroke-width=\"{}\"/>", d,
                       colour, width);
  };
  std::string all;
  std::map<int, std::string> of_colour;  // the largest values come last
  for (size_t n = 0; n < dots.x.size(); ++n) {
    const auto place = fmt::format("M{}h0", at(dots.x[n], dots.y[n]));
    if (dots.values.empty()) {
      all += place;
    } else {
      const double share = colours.share(dots.values[n]);
      const int level =
          std::isfinite(dots.values[n]) && !std::isnan(share)
              ? static_cast<int>(std::lround(255 * std::clamp(share, 0.0, 1.0)))
              : -1;
      of_colour[level] += place;
    }
  }
  // White with a dark rim is seen on every colour.
  if (dots.values.empty()) return path(all, "#222", 5) + path(all, "#fff", 3);
  std::string paths;
  for (const auto& [level, d] : of_colour) {
    const auto colour =
        level < 0 ? std::string("#8a8a8a")
                  : hex(colour_map(colours.scale)[static_cast<size_t>(level)]);
    paths += path(d, colour, level < 0 ? 3 : 6);
  }
  return paths;
}

// Outline, rulers, points and the cross of a panel, over its picture.
std::string overlay(const HeatMaps& maps, const Panel& panel,
                    const ColourScale& colours) {
  const Cells x(maps.x, panel.values.size(1)), y(maps.y, panel.values.size(0));
  const auto at = [&](double px, double py) {
    return fmt::format("{:.1f} {:.1f}", kUnits * share_of(x, px),
                       kUnits * share_of(y, py));
  };
  std::string drawn;
  if (!panel.outline.empty()) {
    std::string d;
    for (const auto& [px, py] : panel.outline) {
      d += fmt::format("{}{}", d.empty() ? "M" : "L", at(px, py));
    }
    drawn += fmt::format("<path d=\"{}\" stroke=\"{}\" stroke-width=\"2\"/>", d,
                         hex(series_colour(1)));
  }
  for (const double place : panel.rulers) {
    const double across = kUnits * share_of(x, place);
    drawn += fmt::format(
        "<path d=\"M{:.1f} 0V{}\" stroke=\"#fff\" stroke-width=\"2\"/>", across,
        kUnits);
  }
  if (!panel.dots.x.empty()) drawn += dot_paths(panel.dots, colours, at);
  if (panel.cross) {
    const double cx = kUnits * share_of(x, panel.cross->first);
    const double cy = kUnits * share_of(y, panel.cross->second);
    drawn += fmt::format(
        "<path d=\"M{:.1f} {:.1f}l40 40m0 -40l-40 40\" stroke=\"#d40000\" "
        "stroke-width=\"3\"/>",
        cx - 20, cy - 20);
  }
  if (drawn.empty()) return drawn;
  return fmt::format(
      "<svg viewBox=\"0 0 {0} {0}\" preserveAspectRatio=\"none\" "
      "aria-hidden=\"true\">{1}</svg>",
      kUnits, drawn);
}

bool has_map(const HeatMaps& maps, size_t row, size_t column) {
  return row < maps.rows.size() && column < maps.rows[row].panels.size() &&
         maps.rows[row].panels[column].values.defined();
}

std::string panel_html(const HeatMaps& maps, size_t row, size_t column,
                       const ColourScale& colours) {
  if (!has_map(maps, row, column)) return "<div class=\"map none\"></div>\n";
  const auto& panel = maps.rows[row].panels[column];
  bool lowest = true;
  for (size_t r = row + 1; r < maps.rows.size(); ++r) {
    lowest = lowest && !has_map(maps, r, column);
  }
  const Cells x(maps.x, panel.values.size(1)), y(maps.y, panel.values.size(0));
  const auto name = maps.rows[row].label + " " + panel.title;
  return fmt::format(
      "<div class=\"map{}{}\"><p>{}</p><div class=\"map-field\">"
      "<img alt=\"{}\" src=\"data:image/png;base64,{}\">{}{}{}</div></div>\n",
      column == 0 ? " first" : "", lowest ? " lowest" : "",
      escaped(panel.title), escaped(name), picture(panel.values, colours),
      overlay(maps, panel, colours),
      axis_html('x', maps.x, x, maps.panel_width),
      axis_html('y', maps.y, y, maps.panel_height));
}

std::string bar_html(const PanelRow& row, const ColourScale& colours,
                     double pixels) {
  if (!row.bar) return "";
  auto text =
      fmt::format("<div class=\"map-bar\"><i class=\"{}\"></i><div>",
                  row.scale == Scale::kSequential ? "sequential" : "diverging");
  const double extent = colours.high - colours.low;
  if (row.log) {
    const double step = std::max(1.0, std::ceil(extent / (pixels / 28)));
    for (const double power : ticks_between(colours.low, colours.high, step)) {
      text +=
          tick(fmt::format("1e{:.0f}", power), (power - colours.low) / extent);
    }
  } else {
    const double step = tick_step(extent, pixels / 40);
    for (const double value : ticks_between(colours.low, colours.high, step)) {
      text += tick(fmt::format("{:.6g}", value), colours.share(value));
    }
  }
  return text + fmt::format("</div><b>{}</b></div>\n", escaped(row.bar_label));
}

}  // namespace

std::string map_grid(const HeatMaps& maps) {
  if (!has_png()) return "";
  size_t columns = 1;
  bool labelled = false, barred = false;
  for (const auto& row : maps.rows) {
    columns = std::max(columns, row.panels.size());
    labelled = labelled || !row.label.empty();
    barred = barred || row.bar;
  }
  auto text = fmt::format(
      "<div class=\"maps{}{}\" style=\"--panels:{};--width:{:.0f}px;"
      "--shape:{:.4f}\">\n",
      labelled ? " labelled" : "", barred ? " barred" : "", columns,
      maps.panel_width, maps.panel_width / maps.panel_height);
  for (size_t r = 0; r < maps.rows.size(); ++r) {
    const auto& row = maps.rows[r];
    const ColourScale colours(row);
    text += fmt::format(
        "<div class=\"map-row\"><b class=\"map-label\">{}</b>"
        "<div class=\"map-panels\">\n",
        escaped(row.label));
    for (size_t c = 0; c < row.panels.size(); ++c) {
      text += panel_html(maps, r, c, colours);
    }
    text += "</div>" + bar_html(row, colours, maps.panel_height) + "</div>\n";
  }
  return text + "</div>\n";
}

std::string scale_properties() {
  constexpr size_t kStops = 16;
  std::string text;
  for (const auto& [name, scale] :
       {std::pair{"sequential", Scale::kSequential},
        std::pair{"diverging", Scale::kDiverging}}) {
    const auto& colours = colour_map(scale);
    text += fmt::format("--{}: ", name);
    for (size_t n = 0; n <= kStops; ++n) {
      text += fmt::format("{}{}", n == 0 ? "" : ", ",
                          hex(colours[n * (colours.size() - 1) / kStops]));
    }
    text += ";\n";
  }
  return text;
}

}  // namespace propagator::report
