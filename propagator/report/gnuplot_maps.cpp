#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "propagator/report/gnuplot_script.h"

// Grids of heat maps.

namespace propagator::report {
namespace {

// The sizes of a grid in pixels, and places as gnuplot wants them: shares of
// the picture from its bottom left.
struct MapsLayout {
  double left, top, title, gap, bottom, bar;
  double panel_width, panel_height;
  double width, height;

  explicit MapsLayout(const HeatMaps& maps)
      : top(maps.title.empty() ? 6 : 32),
        title(maps.rows.size() > 1 ? 14 : 8),
        gap(20),
        bottom(52),
        bar(14),
        panel_width(maps.panel_width),
        panel_height(maps.panel_height) {
    bool row_labels = false;
    size_t columns = 0;
    for (const auto& row : maps.rows) {
      columns = std::max(columns, row.panels.size());
      row_labels = row_labels || !row.label.empty();
      if (row.bar) bar = row.bar_label.empty() ? 76 : 96;
      for (const auto& panel : row.panels) {
        if (!panel.title.empty()) title = 24;
      }
    }
    left = 66 + (row_labels ? 24 : 0);
    const auto count = static_cast<double>(columns);
    width = left + count * panel_width + (count - 1) * gap + bar;
    height = top + bottom +
             static_cast<double>(maps.rows.size()) * (panel_height + title);
  }

  // Left edge of a column, top edge of a row, in pixels from the top left.
  double x(size_t column) const {
    return left + static_cast<double>(column) * (panel_width + gap);
  }
  double y(size_t row) const {
    return top + title + static_cast<double>(row) * (panel_height + title);
  }
  double across(double pixels) const { return pixels / width; }
  double up(double pixels) const { return 1 - pixels / height; }
};

std::string matrix_rows(const torch::Tensor& values) {
  const auto matrix = values.to(torch::kCPU, torch::kFloat64).contiguous();
  const double* value = matrix.data_ptr<double>();
  std::string rows;
  for (int64_t r = 0; r < matrix.size(0); ++r) {
    for (int64_t c = 0; c < matrix.size(1); ++c, ++value) {
      rows += c == 0 ? "" : "\t";
      rows += std::isfinite(*value) ? fmt::format("{:.5g}", *value) : "NaN";
    }
    rows += "\n";
  }
  return rows;
}

// The factor between ticks of a logarithmic bar: `count` of them at most.
std::string decades(double low, double high, double count) {
  return plain(std::pow(10, std::ceil(std::log10(high / low) / count)));
}

// Scale and colour bar of a row; all bars stand at the right.
std::string row_commands(const PanelRow& row, const MapsLayout& at,
                         size_t index) {
  const auto [low, high] = limits(row);
  const double y = at.y(index), h = at.panel_height;
  auto text = palette(row.scale);
  text += fmt::format(
      "set cbrange [{}:{}]\nset tmargin at screen {:.5f}\n"
      "set bmargin at screen {:.5f}\n",
      plain(low), plain(high), at.up(y), at.up(y + h));
  // A short bar names its ends.
  const auto numbers =
      h < 120   ? fmt::format("('{0:.2g}' {0}, '{1:.2g}' {1})", low, high)
      : row.log ? decades(low, high, h / 28)
                : plain(tick_step(high - low, h / 28));
  text += fmt::format(
      "{} logscale cb\nset cbtics {} font ',9'\nset format cb '{}'\n"
      "set cblabel {} offset 0.6,0 font ',9'\n",
      row.log ? "set" : "unset", numbers, row.log ? "10^{%T}" : "%g",
      in_quotes(row.bar_label));
  if (!row.label.empty()) {
    text += fmt::format(
        "set label 2 {} at screen {:.4f},{:.4f} center rotate by 90 "
        "tc rgb '#222222'\n",
        in_quotes(row.label), at.across(14), at.up(y + h / 2));
  }
  if (row.bar) {
    text += fmt::format(
        "set colorbox user origin screen {:.5f},{:.5f} "
        "size screen {:.5f},{:.5f}\n",
        at.across(at.width - at.bar + 12), at.up(y + h), at.across(12),
        h / at.height);
  }
  return text;
}

double ticks(const Axis& axis, double extent, double count) {
  return axis.ticks > 0 ? axis.ticks : tick_step(extent, count);
}

bool has_panel(const HeatMaps& maps, size_t row, size_t column) {
  return row < maps.rows.size() && column < maps.rows[row].panels.size() &&
         maps.rows[row].panels[column].values.defined();
}

// Margins, axes and title of one panel. The first one of a row and the lowest
// of a column name their axes.
std::string panel_commands(const HeatMaps& maps, const MapsLayout& at,
                           size_t row, size_t column) {
  const auto& panel = maps.rows[row].panels[column];
  bool lowest = true;
  for (size_t r = row + 1; r < maps.rows.size(); ++r) {
    lowest = lowest && !has_panel(maps, r, column);
  }
  const Cells x(maps.x, panel.values.size(1)), y(maps.y, panel.values.size(0));
  auto text = fmt::format(
      "set lmargin at screen {:.5f}\nset rmargin at screen {:.5f}\n",
      at.across(at.x(column)), at.across(at.x(column) + at.panel_width));
  // Row 0 is at the top, whichever way the axis counts.
  text +=
      fmt::format("set xrange [{}:{}]\nset yrange [{}:{}]\n", plain(x.begin),
                  plain(x.end), plain(y.end), plain(y.begin));
  text +=
      fmt::format("set title {} offset 0,-0.7 font ',10' tc rgb '#222222'\n",
                  in_quotes(panel.title));
  text += lowest ? fmt::format("set xlabel {} offset 0,0.4\n",
                               in_quotes(maps.x.label))
                 : "unset xlabel\n";
  text += column == 0 ? fmt::format("set ylabel {} offset 0.3,0\n",
                                    in_quotes(maps.y.label))
                      : "unset ylabel\n";
  text += "unset arrow\n";
  for (const double place : panel.rulers) {
    text += fmt::format(
        "set arrow from first {0}, graph 0 to first {0}, graph 1 nohead front "
        "lw 1.5 lc rgb '#ffffff'\n",
        plain(place));
  }
  return text + fmt::format(
                    "set xtics {}\nset ytics {}\nset format x '{}'\n"
                    "set format y '{}'\n",
                    plain(ticks(maps.x, x.end - x.begin, at.panel_width / 50)),
                    plain(ticks(maps.y, y.end - y.begin, at.panel_height / 35)),
                    lowest ? "%g" : "", column == 0 ? "%g" : "");
}

// A value as a row's scale takes it: zero has no logarithm, and is drawn as the
// low end.
std::string on_scale(const PanelRow& row) {
  if (!row.log) return "3";
  return fmt::format("($3<{0}?{0}:$3)", plain(limits(row).first));
}

// Points over a panel. The largest values come last, so that none is hidden by
// those below it.
std::string dots_command(const PanelRow& row, const Dots& dots,
                         GnuplotScript& script) {
  std::vector<size_t> order(dots.x.size());
  std::iota(order.begin(), order.end(), size_t{0});
  if (dots.values.empty()) {
    std::string rows;
    for (const size_t n : order) {
      rows += fmt::format("{}\t{}\n", plain(dots.x[n]), plain(dots.y[n]));
    }
    // White with a dark rim is seen on every colour.
    return fmt::format(
        ", \\\n     data index {0} using 1:2 with points pt 7 ps 0.42 lc rgb "
        "'#222222', \\\n     data index {0} using 1:2 with points pt 7 ps 0.26 "
        "lc rgb '#ffffff'",
        script.block("points", {"x", "y"}, rows));
  }
  std::ranges::stable_sort(order, {}, [&](size_t n) {
    return std::isfinite(dots.values[n])
               ? dots.values[n]
               : -std::numeric_limits<double>::infinity();
  });
  std::string with, without;
  for (const size_t n : order) {
    const bool known = std::isfinite(dots.values[n]);
    (known ? with : without) +=
        fmt::format("{}\t{}\t{}\n", plain(dots.x[n]), plain(dots.y[n]),
                    plain(dots.values[n]));
  }
  const std::vector<std::string> columns{"x", "y", "value"};
  const auto rings = script.block("points without a value", columns, without);
  const auto points = script.block("points", columns, with);
  return fmt::format(
      ", \\\n     data index {} using 1:2 with points pt 6 ps 0.3 lc rgb "
      "'#8a8a8a', \\\n     data index {} using 1:2:{} with points pt 7 ps 0.55 "
      "lc palette",
      rings, points, on_scale(row));
}

std::string plot_command(const HeatMaps& maps, const PanelRow& row,
                         const Panel& panel, GnuplotScript& script) {
  const Cells x(maps.x, panel.values.size(1)), y(maps.y, panel.values.size(0));
  const auto block = script.block(fmt::format("{} {}", row.label, panel.title),
                                  /*columns=*/{}, matrix_rows(panel.values));
  auto text = fmt::format(
      "plot data index {} matrix using ({}+{}*$1):({}+{}*$2):{} with image",
      block, plain(x.first), plain(x.step), plain(y.first), plain(y.step),
      on_scale(row));
  if (!panel.outline.empty()) {
    std::string points;
    for (const auto& [px, py] : panel.outline) {
      points += fmt::format("{}\t{}\n", plain(px), plain(py));
    }
    text += fmt::format(
        ", \\\n     data index {} using 1:2 with lines lw 1.5 lc rgb '{}'",
        script.block("outline", {"x", "y"}, points), hex(series_colour(1)));
  }
  if (!panel.dots.x.empty()) text += dots_command(row, panel.dots, script);
  if (panel.cross) {
    const auto place = fmt::format("{}\t{}\n", plain(panel.cross->first),
                                   plain(panel.cross->second));
    text += fmt::format(
        ", \\\n     data index {} using 1:2 with points pt 2 ps 1.3 lw 2.2 lc "
        "rgb '#d40000'",
        script.block("cross", {"x", "y"}, place));
  }
  return text + "\n";
}

}  // namespace

std::string palette(Scale scale) {
  constexpr size_t kColours = 16;
  const auto& map = colour_map(scale);
  std::string colours;
  for (size_t n = 0; n <= kColours; ++n) {
    colours += fmt::format("{}{} '{}'", n == 0 ? "" : ", ", n,
                           hex(map[n * (map.size() - 1) / kColours]));
  }
  return fmt::format("set palette maxcolors 256 defined ({})\n", colours);
}

GnuplotScript write_script(const HeatMaps& maps) {
  const MapsLayout at(maps);
  GnuplotScript script{at.width, at.height, ""};
  auto& body = script.body;
  // Cells without a value let the grey ground through.
  body = fmt::format(
      "set multiplot\nset key off\nunset colorbox\nset border lw 0.5 lc rgb "
      "'#444444'\n"
      "set tics out nomirror tc rgb '#222222' font ',9'\n"
      "set object 1 rectangle from graph 0,0 to graph 1,1 behind "
      "fc rgb '{}' fs solid noborder\n",
      hex(kNoValue));
  if (!maps.title.empty()) {
    body += fmt::format(
        "set label 1 {} at screen {:.4f},{:.4f} center tc rgb '#222222'\n",
        in_quotes(maps.title),
        at.across(at.left + (at.width - at.left - at.bar) / 2), at.up(14));
  }
  for (size_t r = 0; r < maps.rows.size(); ++r) {
    const auto& row = maps.rows[r];
    // gnuplot reads a file from its beginning for every block, so that large
    // grids in one file would take minutes.
    body += script.file(maps.rows.size() == 1 ? ".dat"
                                              : fmt::format("-{}.dat", r + 1));
    body += row_commands(row, at, r);
    for (size_t c = 0; c < row.panels.size(); ++c) {
      if (!has_panel(maps, r, c)) continue;
      body += panel_commands(maps, at, r, c);
      body += plot_command(maps, row, row.panels[c], script);
      body += "unset label 1\nunset label 2\nunset colorbox\n";
    }
  }
  body += "unset multiplot\n";
  return script;
}

}  // namespace propagator::report
