#include "propagator/report/legend.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <tuple>

namespace propagator::report {
namespace {

// About, in pixels: the plot between its axes, a letter, an entry's line and
// the sample in front of its text.
constexpr double kPlotWidth = 400, kPlotHeight = 245;
constexpr double kLetterWidth = 7.4, kEntryHeight = 21, kSample = 48;
constexpr int kSteps = 160;  // along a curve, to see where it goes

struct Box {
  double left, bottom, right, top;
  bool has(double x, double y) const {
    return x >= left && x <= right && y >= bottom && y <= top;
  }
};

double share(const Axis& axis, double value) {
  return axis.log
             ? std::log(value / axis.first) / std::log(axis.last / axis.first)
             : (value - axis.first) / (axis.last - axis.first);
}

// Places of a curve in shares of the plot, close to one another.
void add_places(const LinePlot& plot, const std::vector<double>& x,
                const std::vector<double>& y,
                std::vector<std::pair<double, double>>& places) {
  const size_t count = std::min(x.size(), y.size());
  for (size_t n = 0; n < count; ++n) {
    const double px = share(plot.x, x[n]), py = share(plot.y, y[n]);
    if (!std::isfinite(px) || !std::isfinite(py)) continue;
    places.emplace_back(px, py);
    if (n + 1 == count) continue;
    const double qx = share(plot.x, x[n + 1]), qy = share(plot.y, y[n + 1]);
    if (!std::isfinite(qx) || !std::isfinite(qy)) continue;
    const int steps = static_cast<int>(std::min<double>(
        kSteps, std::ceil(kSteps * std::hypot(qx - px, qy - py))));
    for (int k = 1; k < steps; ++k) {
      const double part = static_cast<double>(k) / steps;
      places.emplace_back(px + part * (qx - px), py + part * (qy - py));
    }
  }
}

std::vector<std::pair<double, double>> all_places(const LinePlot& plot) {
  std::vector<std::pair<double, double>> places;
  for (const auto& series : plot.series) {
    add_places(plot, series.x, series.y, places);
  }
  for (const auto& band : plot.bands) {
    for (const double part : {0.0, 0.25, 0.5, 0.75, 1.0}) {
      std::vector<double> between;
      for (size_t n = 0; n < band.low.size(); ++n) {
        between.push_back(band.low[n] + part * (band.high[n] - band.low[n]));
      }
      add_places(plot, band.x, between, places);
    }
  }
  // Labels of events hang from the top.
  for (const auto& event : plot.events) {
    const double x = share(plot.x, event.x);
    const double length =
        kLetterWidth * static_cast<double>(event.label.size()) / kPlotHeight;
    for (double y = 1; y > 1 - length; y -= 0.02) places.emplace_back(x, y);
  }
  return places;
}

}  // namespace

LegendPlace place_legend(const LinePlot& given, bool y_is_free) {
  auto plot = given;
  double entries = 0;
  size_t longest = 0;
  const auto count = [&](const std::string& name) {
    if (name.empty()) return;
    ++entries;
    longest = std::max(longest, name.size());
  };
  for (const auto& series : plot.series) count(series.name);
  for (const auto& band : plot.bands) count(band.name);
  const double width =
      (kSample + kLetterWidth * static_cast<double>(longest)) / kPlotWidth;
  const double height = (8 + kEntryHeight * entries) / kPlotHeight;
  if (entries == 0 || width > 0.8 || height > 0.6) {
    return {"above center horizontal", plot.y.first, plot.y.last};
  }
  const std::pair<const char*, Box> corners[] = {
      {"top right", {1 - width, 1 - height, 1, 1}},
      {"top left", {0, 1 - height, width, 1}},
      {"bottom right", {1 - width, 0, 1, height}},
      {"bottom left", {0, 0, width, height}},
      {"top center", {0.5 - width / 2, 1 - height, 0.5 + width / 2, 1}},
      {"bottom center", {0.5 - width / 2, 0, 0.5 + width / 2, height}}};
  const auto least_used = [&] {
    const auto places = all_places(plot);
    const char* best = nullptr;
    int64_t fewest = 0;
    for (const auto& corner : corners) {
      const auto used = std::ranges::count_if(places, [&](const auto& at) {
        return corner.second.has(at.first, at.second);
      });
      if (best == nullptr || used < fewest) best = corner.first, fewest = used;
    }
    return std::pair(best, fewest);
  };
  auto [best, used] = least_used();
  if (used > 0 && y_is_free) {
    const double more = height / (1 - height);
    auto& [label, first, last, log, ticks] = plot.y;
    last = log ? last * std::pow(last / first, more)
               : last + more * (last - first);
    std::tie(best, used) = least_used();
  }
  return {fmt::format("inside {}", best), plot.y.first, plot.y.last};
}

}  // namespace propagator::report
