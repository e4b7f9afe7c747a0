#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "propagator/report/gnuplot_script.h"
#include "propagator/report/legend.h"

// Line plots and bar charts.

namespace propagator::report {
namespace {

// Smallest and largest of some numbers.
struct Extent {
  double low = std::numeric_limits<double>::infinity();
  double high = -low;

  void include(double value) {
    if (!std::isfinite(value)) return;
    low = std::min(low, value);
    high = std::max(high, value);
  }
  bool is_empty() const { return !(low <= high); }
};

// Where there is nothing to draw gnuplot finds no range and draws no axes.
constexpr double kTopOfNothing = 1;

// Pixels of a bar chart, about: what is beside the bars, a letter under them,
// and a digit above one of them.
constexpr double kBeside = 100, kLetter = 7, kDigit = 6.5;

double longest(const std::vector<std::string>& words) {
  size_t most = 0;
  for (const auto& word : words) most = std::max(most, word.size());
  return static_cast<double>(most);
}

// Below bars, one at each whole number.
std::string ticks_of(const std::vector<std::string>& categories) {
  std::string ticks;
  for (size_t n = 0; n < categories.size(); ++n) {
    ticks +=
        fmt::format("{}{} {}", n == 0 ? "" : ", ", in_quotes(categories[n]), n);
  }
  return ticks;
}

// Under two decades powers of ten alone would leave the axis bare.
std::string log_ticks(char which, const Axis& axis) {
  if (axis.first == axis.last || axis.last / axis.first > 300) {
    return fmt::format("set format {} '10^{{%L}}'\n", which);
  }
  std::string ticks;
  const int first = static_cast<int>(std::floor(std::log10(axis.first)));
  const int last = static_cast<int>(std::ceil(std::log10(axis.last)));
  for (int power = first; power <= last; ++power) {
    for (const double factor : {1.0, 2.0, 5.0}) {
      const double tick = factor * std::pow(10, power);
      if (tick < 0.999 * axis.first || tick > 1.001 * axis.last) continue;
      const bool short_number = power >= -2 && power <= 3;
      ticks += ticks.empty() ? "" : ", ";
      ticks += short_number ? fmt::format("'{0:g}' {0:g}", tick)
               : factor == 1
                   ? fmt::format("'10^{{{}}}' {:g}", power, tick)
                   : fmt::format("'{:g}·10^{{{}}}' {:g}", factor, power, tick);
    }
  }
  return fmt::format("set {}tics ({})\n", which, ticks);
}

std::string axis_commands(char which, const Axis& axis) {
  auto text =
      fmt::format("set {}label {} tc rgb '#222222'{}\n", which,
                  in_quotes(axis.label), which == 'x' ? " offset 0,0.5" : "");
  if (axis.log) {
    text += fmt::format("set logscale {}\n{}", which, log_ticks(which, axis));
  }
  // Longer numbers would run into one another.
  if (which == 'x' && !axis.log && axis.last >= 1e4) {
    text += "set format x '%.0s%c'\n";  // 20k
  }
  if (axis.first != axis.last) {
    text += fmt::format("set {}range [{}:{}]\n", which, plain(axis.first),
                        plain(axis.last));
  }
  return text;
}

std::string frame_commands(const std::string& title, const std::string& key) {
  return fmt::format(
      "set title {} tc rgb '#222222'\n"
      "set border 3 lc rgb '#666666'\n"
      "set tics nomirror out tc rgb '#222222'\n"
      "set grid back lw 0.5 lc rgb '#dddddd'\n"
      "set key {} samplen 2 tc rgb '#222222'\n",
      in_quotes(title), key);
}

// Marks, with labels that are moved apart where they would overlap.
std::string event_commands(const LinePlot& plot) {
  constexpr double kLabelWidth = 0.035;  // of the plot, a line of small text
  const auto& [label, low, high, log, ticks] = plot.x;
  auto events = plot.events;
  std::ranges::stable_sort(events, {}, &Event::x);
  std::string text;
  double free_from = 0;
  for (const auto& event : events) {
    if (!(event.x >= low && event.x <= high)) continue;
    const double place = log ? std::log(event.x / low) / std::log(high / low)
                             : (event.x - low) / (high - low);
    const double label_at = std::max(place, free_from);
    free_from = label_at + kLabelWidth;
    text += fmt::format(
        "set arrow from first {0}, graph 0 to first {0}, graph 1 nohead back "
        "dt 3 lc rgb '#888888'\n"
        "set label {1} at graph {2:.4f}, graph 0.98 right rotate by 90 "
        "offset character {3},0 font small tc rgb '#555555'\n",
        plain(event.x), in_quotes(event.label), label_at,
        label_at > 0.95   ? -0.7
        : label_at < 0.02 ? 1.1
                          : 0.7);
  }
  return text;
}

std::string look_of(const Series& series, size_t index) {
  const auto colour = hex(series_colour(series.colour.value_or(index)));
  if (series.x.size() == 1) {  // no line
    return fmt::format("with points pt 7 ps 0.8 lc rgb '{}'", colour);
  }
  switch (series.style) {
    case Series::Style::kPoints:
      return fmt::format("with points pt 7 ps 0.5 lc rgb '{}'", colour);
    case Series::Style::kDashed:
      return fmt::format("with lines lw 1.5 dt 2 lc rgb '{}'", colour);
    default:
      return fmt::format("with lines lw 1.8 lc rgb '{}'", colour);
  }
}

// Whether a range is set that a logarithm does not have.
bool reaches_zero(const Axis& axis) {
  return axis.first != axis.last && std::min(axis.first, axis.last) <= 0;
}

std::string legend(const std::string& name) {
  return name.empty() ? "notitle" : "title " + in_quotes(name);
}

// A value on the y axis; none where a logarithm has none.
std::string on_axis(const Axis& y, double value) {
  return !y.log || value > 0 ? plain(value) : "NaN";
}

// What stands in front of the k-th thing that is plotted.
const char* next_plot(size_t k) { return k == 0 ? "plot" : ", \\\n    "; }

std::string band_commands(const LinePlot& plot, GnuplotScript& script) {
  std::string commands;
  for (size_t k = 0; k < plot.bands.size(); ++k) {
    const auto& band = plot.bands[k];
    std::string rows;
    for (size_t n = 0; n < band.x.size(); ++n) {
      rows += fmt::format("{}\t{}\t{}\n", plain(band.x[n]),
                          on_axis(plot.y, band.low[n]),
                          on_axis(plot.y, band.high[n]));
    }
    const auto block =
        script.block(band.name, {plot.x.label, "low", "high"}, rows);
    commands += fmt::format(
        "{} data index {} using 1:2:3 with filledcurves fs transparent solid "
        "{:.2f} noborder lc rgb '{}' {}",
        next_plot(k), block, band.opacity, hex(series_colour(0)),
        legend(band.name));
  }
  return commands;
}

// Limits of all that is plotted, on a logarithmic y axis of what it has.
std::pair<Extent, Extent> extents_of(const LinePlot& plot) {
  Extent x, y;
  const auto include_y = [&](const std::vector<double>& values) {
    for (const double value : values) {
      if (!plot.y.log || value > 0) y.include(value);
    }
  };
  const auto include = [](Extent& extent, const std::vector<double>& values) {
    for (const double value : values) extent.include(value);
  };
  for (const auto& series : plot.series) {
    include(x, series.x);
    include_y(series.y);
  }
  for (const auto& band : plot.bands) {
    include(x, band.x);
    include_y(band.low);
    include_y(band.high);
  }
  return {x, y};
}

// A range with some room around the values; from zero where they come near it.
void set_range(Axis& axis, const Extent& values) {
  constexpr double kRoom = 0.05;
  if (values.is_empty()) {
    axis.first = 0, axis.last = kTopOfNothing;
    return;
  }
  if (axis.log) {
    // Over a factor of five there are two ticks at least.
    const double ratio = values.high / values.low;
    const double room = std::max(std::pow(ratio, kRoom), std::sqrt(5 / ratio));
    axis.first = values.low / room, axis.last = values.high * room;
    return;
  }
  const double extent = values.high - values.low;
  const double room =
      extent > 0 ? kRoom * extent : std::max(0.1 * std::abs(values.high), 1e-3);
  const bool near_zero = values.low >= 0 && values.low < 0.5 * values.high;
  axis.first = near_zero ? 0 : values.low - room;
  axis.last = values.high + room;
}

}  // namespace

GnuplotScript write_script(const LinePlot& given) {
  auto plot = given;
  const auto [x, y] = extents_of(plot);
  plot.x.log =
      plot.x.log && !x.is_empty() && x.low > 0 && !reaches_zero(plot.x);
  plot.y.log = plot.y.log && y.high > 0 && !reaches_zero(plot.y);
  if (plot.x.first == plot.x.last && x.is_empty()) set_range(plot.x, x);
  if (plot.x.first == plot.x.last && x.low < x.high) {
    plot.x.first = x.low, plot.x.last = x.high;
  }
  const bool y_is_free = plot.y.first == plot.y.last;
  if (y_is_free) set_range(plot.y, y);
  std::string key = "above center horizontal";
  if (plot.x.first != plot.x.last && plot.y.first != plot.y.last) {
    const auto legend = place_legend(plot, y_is_free && !plot.square);
    key = legend.place;
    plot.y.first = legend.y_first, plot.y.last = legend.y_last;
  }
  GnuplotScript script{500, plot.square ? 500.0 : 330.0, ""};
  script.body = script.file(".dat") + frame_commands(plot.title, key) +
                (plot.square ? "set size ratio -1\n" : "") +
                axis_commands('x', plot.x) + axis_commands('y', plot.y) +
                event_commands(plot);
  auto curves = band_commands(plot, script);
  for (size_t k = 0; k < plot.series.size(); ++k) {
    const auto& series = plot.series[k];
    std::string rows;
    for (size_t n = 0; n < series.x.size(); ++n) {
      rows += fmt::format("{}\t{}\n", plain(series.x[n]),
                          on_axis(plot.y, series.y[n]));
    }
    const auto block =
        script.block(series.name, {plot.x.label, plot.y.label}, rows);
    curves += fmt::format("{} data index {} using 1:2 {} {}",
                          next_plot(plot.bands.size() + k), block,
                          look_of(series, k), legend(series.name));
  }
  script.body += curves + "\n";
  return script;
}

GnuplotScript write_script(const BarChart& given) {
  auto chart = given;
  const auto categories = static_cast<double>(chart.categories.size());
  double least = std::numeric_limits<double>::infinity();
  Extent drawn;
  std::vector<std::string> numbers;
  for (const auto& bars : chart.bars) {
    for (const double v : bars.values) {
      if (v > 0) least = std::min(least, v);
      drawn.include(v);
      numbers.push_back(fmt::format("{:.2g}", v));
    }
  }
  chart.y.log = chart.y.log && std::isfinite(least);
  // Bars have no zero on a logarithmic axis: they start a decade below.
  const double floor =
      chart.y.log ? std::pow(10, std::floor(std::log10(least)) - 1) : 0;
  const double width = 0.8 / static_cast<double>(chart.bars.size());
  GnuplotScript script{std::clamp(150 + 110 * categories, 420.0, 1000.0), 350,
                       ""};
  const double room = (script.width - kBeside) / categories;
  const bool slanted = kLetter * longest(chart.categories) > room;
  const bool numbered = kDigit * longest(numbers) <= width * room;
  script.body =
      script.file(".dat") +
      frame_commands(chart.title, "above center horizontal") +
      axis_commands('y', chart.y) +
      fmt::format(
          "set grid noxtics\nset style fill solid 0.85 noborder\n"
          "set yrange [{}:{}]\nset xrange [-0.6:{}]\nset xtics ({}){}\n"
          "set boxwidth {:.4f}\n",
          plain(floor), drawn.is_empty() ? plain(kTopOfNothing) : "",
          categories - 0.4, ticks_of(chart.categories),
          slanted ? " rotate by 30 right\nset rmargin 2" : "", 0.92 * width);
  std::string boxes, labels;  // the latter over all of the former
  for (size_t k = 0; k < chart.bars.size(); ++k) {
    const auto& bars = chart.bars[k];
    std::string rows;
    for (size_t n = 0; n < bars.values.size(); ++n) {
      const double place =
          static_cast<double>(n) - 0.4 + width * (static_cast<double>(k) + 0.5);
      rows += fmt::format("{}\t{}\n", plain(place), plain(bars.values[n]));
    }
    const auto block = script.block(bars.name, {"place", "value"}, rows);
    boxes += fmt::format("{} data index {} using 1:2 with boxes lc rgb '{}' {}",
                         next_plot(k), block, hex(series_colour(k)),
                         legend(bars.name));
    if (!numbered) continue;
    labels += fmt::format(
        ", \\\n     data index {} using 1:2:(sprintf('%.2g', $2)) with labels "
        "offset 0,0.6 font small tc rgb '#444444' notitle",
        block);
  }
  script.body += boxes + labels + "\n";
  return script;
}

}  // namespace propagator::report
