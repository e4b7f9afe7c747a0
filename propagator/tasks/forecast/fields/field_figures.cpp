#include "propagator/tasks/forecast/fields/field_figures.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "propagator/core/plain_text.h"
#include "propagator/tasks/forecast/fields/field_spectrum.h"

namespace propagator::tasks {
namespace {

using torch::Tensor;

constexpr double kLeastEnergy = 1e-10;  // that is drawn, of the largest

// Rows for truth, forecast and difference, without panels.
struct ThreeRows {
  report::PanelRow truth, forecast, difference;

  ThreeRows(const std::string& quantity, const Tensor& scale,
            const std::string& prefix)
      : truth{.label = prefix + "truth", .bar_label = quantity},
        forecast{.label = prefix + "forecast", .bar_label = quantity},
        difference{.label = "difference",
                   .bar_label = "forecast - truth",
                   .scale = report::Scale::kDiverging} {
    truth.range = report::limits({.panels = {{"", scale.flatten(0, -2)}}});
    forecast.range = truth.range;
  }
  void add(const std::string& title, const Tensor& right, const Tensor& ours) {
    truth.panels.push_back({title, right});
    forecast.panels.push_back({title, ours});
    difference.panels.push_back({title, ours - right});
  }
  void append_to(report::HeatMaps& maps) const {
    maps.rows.insert(maps.rows.end(), {truth, forecast, difference});
  }
};

// The shape of a panel: that of the plane, unless it is very long.
void set_shape(report::HeatMaps& maps, double width) {
  const double across = std::abs(maps.x.last - maps.x.first);
  const double down = std::abs(maps.y.last - maps.y.first);
  const double ratio = across > 0 && down > 0 ? down / across : 1;
  maps.panel_width = width;
  maps.panel_height = width * std::clamp(ratio, 0.4, 1.6);
}

}  // namespace

std::vector<int64_t> telling_frames(int64_t given, int64_t frames) {
  std::vector<int64_t> all;
  for (const int64_t t : {given, (given + frames - 1) / 2, frames - 1}) {
    if (all.empty() || t > all.back()) all.push_back(t);
  }
  return all;
}

report::HeatMaps maps_over_time(const report::FieldSeries& series,
                                const std::vector<int64_t>& cases,
                                const std::vector<int64_t>& frames) {
  report::HeatMaps maps{.x = series.x, .y = series.y};
  // Two frames of a case take one of the page's columns.
  set_shape(maps, frames.size() > 2 ? 210 : 160);
  for (const int64_t n : cases) {
    const auto& name = series.cases[static_cast<size_t>(n)];
    ThreeRows rows(series.quantity, series.truth[n], name + ", ");
    rows.forecast.label = "forecast";
    for (const int64_t t : frames) {
      rows.add(fmt::format("frame {}", t), series.truth[n][t],
               series.prediction[n][t]);
    }
    rows.append_to(maps);
  }
  return maps;
}

report::HeatMaps maps_of_lines(const report::FieldSeries& series) {
  report::HeatMaps maps{
      .x = series.x, .y = series.y, .panel_width = 230, .panel_height = 170};
  ThreeRows rows(series.quantity, series.truth, "");
  for (int64_t n = 0; n < std::ssize(series.cases); ++n) {
    rows.add(series.cases[static_cast<size_t>(n)], series.truth[n][0],
             series.prediction[n][0]);
  }
  rows.append_to(maps);
  return maps;
}

report::HeatMaps maps_of_slices(const Slices& slices) {
  report::HeatMaps maps{.x = slices.x, .y = slices.y};
  set_shape(maps, 210);
  ThreeRows rows(slices.quantity, slices.truth, "");
  for (size_t n = 0; n < slices.titles.size(); ++n) {
    const auto at = static_cast<int64_t>(n);
    rows.add(slices.titles[n], slices.truth[at], slices.answer[at]);
  }
  rows.append_to(maps);
  return maps;
}

report::Figure figure_of(const ConstantInput& input) {
  if (input.values.dim() == 2) {
    report::LinePlot plot{.title = input.quantity,
                          .x = {.label = input.x.label},
                          .y = {.label = input.quantity}};
    for (size_t n = 0; n < input.cases.size(); ++n) {
      plot.series.push_back(
          {input.cases[n], input.at,
           report::numbers(input.values[static_cast<int64_t>(n)])});
    }
    return plot;
  }
  report::HeatMaps maps{.x = input.x, .y = input.y};
  set_shape(maps, 210);
  report::PanelRow row{.label = input.quantity, .bar_label = input.quantity};
  for (size_t n = 0; n < input.cases.size(); ++n) {
    row.panels.push_back(
        {input.cases[n], input.values[static_cast<int64_t>(n)]});
  }
  maps.rows = {row};
  return maps;
}

report::LinePlot spectra_plot(const std::string& quantity, const Tensor& truth,
                              const Tensor& answer,
                              const std::vector<int64_t>& frames) {
  report::LinePlot plot{
      .title = fmt::format("Spectra of {}", quantity),
      .x = {.label = "frequency (periods of an axis)", .log = true},
      .y = {.label = "energy", .log = true}};
  using enum report::Series::Style;
  for (size_t n = 0; n < frames.size(); ++n) {
    const auto add = [&](const char* who, const Tensor& fields, auto style) {
      const auto energy =
          report::numbers(energy_spectrum(fields.select(1, frames[n])).mean(0));
      report::Series series{.name = fmt::format("{}, frame {}", who, frames[n]),
                            .style = style,
                            .colour = n};
      const double peak = *std::ranges::max_element(energy);
      for (size_t k = 1; k < energy.size(); ++k) {
        series.x.push_back(static_cast<double>(k));
        // Less is what rounding leaves.
        const bool seen = energy[k] > kLeastEnergy * peak;
        series.y.push_back(seen ? energy[k] : std::nan(""));
      }
      plot.series.push_back(series);
    };
    add("truth", truth, kLine);
    add("forecast", answer, kDashed);
  }
  // Half way between whole frequencies, where a band begins.
  for (const int64_t last : {kLowBand, kMiddleBand}) {
    plot.events.push_back(
        {static_cast<double>(last) + 0.5, fmt::format("from {}", last + 1)});
  }
  return plot;
}

report::LinePlot drift_plot(const nlohmann::json& numbers) {
  const auto& sums = numbers.at("conserved");
  report::LinePlot plot{
      .title = "Drift of conserved sums",
      .x = {.label = "frame"},
      .y = {.label = "drift", .log = true},
      .events = {{numbers.at("given_frames").get<double>(), "first forecast"}}};
  const auto first = numbers.at("given_frames").get<int64_t>();
  using enum report::Series::Style;
  for (const auto& channel : sums.at("channels")) {
    const auto name = channel.get<std::string>();
    for (const bool truth : {false, true}) {
      report::Series series{.name = name + (truth ? ", truth" : ", forecast"),
                            .style = truth ? kDashed : kLine};
      const std::vector<double> drift =
          sums.at(truth ? "true_drift" : "drift").at(name).at("per_frame");
      for (size_t n = 0; n < drift.size(); ++n) {
        // Zero has no place on a logarithmic axis.
        if (drift[n] <= 0) continue;
        series.x.push_back(static_cast<double>(first) + static_cast<double>(n));
        series.y.push_back(drift[n]);
      }
      plot.series.push_back(std::move(series));
    }
  }
  return plot;
}

std::string as_file_name(const std::string& text) {
  auto name = plain_text(text);
  for (char& c : name) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x80 && std::isalnum(byte) == 0 && c != '_') c = '-';
  }
  return name;
}

}  // namespace propagator::tasks
