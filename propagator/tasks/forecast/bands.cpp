#include <torch/utils.h>

#include <limits>

#include "propagator/tasks/calibration.h"
#include "propagator/tasks/forecast/forecast.h"

// What a predicted variance shows: bands, maps, coverage.

namespace propagator::tasks {
namespace {

using models::as_forecaster;
using nlohmann::json;
using report::HeatMaps;
using report::LinePlot;
using report::Series;
using torch::Tensor;
using Style = Series::Style;

constexpr int64_t kShownCases = 2;
constexpr int64_t kShownDraws = 3;

// A forecast of a few cases as the page shows it, on the CPU: (B, T, R, C), and
// drawn (B, K, T, R, C).
struct ShownSpread {
  Tensor truth, mean, deviation, drawn;
};

std::vector<double> counted_from(int64_t first, int64_t count) {
  std::vector<double> frames;
  for (int64_t t = 0; t < count; ++t) {
    frames.push_back(static_cast<double>(first + t));
  }
  return frames;
}

report::Band band_of(const char* name, double share, double opacity,
                     const Tensor& middle, const Tensor& deviation) {
  const auto reach = normal_reach(share) * deviation;
  return {name, counted_from(0, middle.size(0)),
          report::numbers(middle - reach), report::numbers(middle + reach),
          opacity};
}

// The node in the middle: as it is, and what is left of it when the forecast
// is taken away, since good bands are narrow beside the field.
void draw_centre(const ShownSpread& shown, int64_t index,
                 const std::string& quantity, int64_t visible,
                 report::Report& report) {
  const int64_t row = shown.mean.size(2) / 2, column = shown.mean.size(3) / 2;
  const auto at = [&](const Tensor& fields) {
    return fields[index].select(-1, column).select(-1, row);
  };
  const auto mean = at(shown.mean), truth = at(shown.truth);
  const auto deviation = at(shown.deviation);
  const auto frames = counted_from(0, mean.size(0));
  const report::Event hidden{static_cast<double>(visible),
                             "first hidden frame"};
  LinePlot field{
      .title = fmt::format("Node in the middle, test case {}", index),
      .x = {.label = "frame"},
      .y = {.label = quantity},
      .series = {{"forecast", frames, report::numbers(mean)},
                 {"truth", frames, report::numbers(truth), Style::kDashed}},
      .events = {hidden},
      .bands = {band_of("90 % band", 0.9, 0.3, mean, deviation)}};
  report.figure(fmt::format("band-{}", index), field,
                "The node in the middle of the plate over time: the forecast "
                "with the band that is to hold the truth nine times of ten.");
  const auto zero = torch::zeros_like(mean);
  LinePlot errors{
      .title =
          fmt::format("Truth - forecast in the middle, test case {}", index),
      .x = {.label = "frame"},
      .y = {.label = quantity},
      .series = {{"truth - forecast", frames, report::numbers(truth - mean)}},
      .events = {hidden},
      .bands = {band_of("90 % band", 0.9, 0.15, zero, deviation),
                band_of("50 %", 0.5, 0.25, zero, deviation)}};
  const auto drawn = at(shown.drawn);  // (K, T)
  for (int64_t k = 0; k < drawn.size(0); ++k) {
    errors.series.push_back({fmt::format("drawn {} - forecast", k + 1), frames,
                             report::numbers(drawn[k] - mean)});
  }
  report.figure(fmt::format("band-errors-{}", index), errors,
                "The same without the forecast: the error, the bands that are "
                "predicted for it, and trajectories that were drawn.");
}

// Predicted deviation beside |error| at three frames, on one scale a row.
void draw_maps(const ShownSpread& shown, const ShownFrames& times,
               const report::Axis& x, const report::Axis& y,
               report::Report& report) {
  HeatMaps maps{.title = "Predicted deviation and error",
                .x = x,
                .y = y,
                .panel_width = 132,
                .panel_height = 132};
  for (int64_t n = 0; n < shown.mean.size(0); ++n) {
    report::PanelRow row{.label = fmt::format("test case {}", n)};
    for (const int64_t t : {times.early, times.middle, times.late}) {
      row.panels.push_back(
          {fmt::format("deviation, frame {}", t), shown.deviation[n][t]});
      row.panels.push_back({fmt::format("|error|, frame {}", t),
                            (shown.truth[n][t] - shown.mean[n][t]).abs()});
    }
    maps.rows.push_back(row);
  }
  report.figure("deviation", maps,
                "The standard deviation that is predicted at each node, beside "
                "how far the forecast is off; one scale a row.");
}

void draw_coverage(const json& spread, report::Report& report) {
  const std::vector<double> some = spread.at("coverage_per_frame").at("90");
  const auto frames = counted_from(spread.at("first_frame").get<int64_t>(),
                                   static_cast<int64_t>(some.size()));
  LinePlot plot{.title = "Coverage of each frame",
                .x = {.label = "frame"},
                .y = {.label = "inside (%)", .first = 0, .last = 100}};
  const auto add = [&](const std::string& name, std::vector<double> shares,
                       Style style) {
    for (auto& share : shares) share *= 100;
    plot.series.push_back({name, frames, std::move(shares), style});
  };
  const double sizes[] = {0.5, 0.9, 0.95};
  for (const double share : sizes) {
    const auto name = fmt::format("{:.0f}", 100 * share);
    add(name + " % interval", spread.at("coverage_per_frame").at(name),
        Style::kLine);
  }
  // One line with gaps.
  Series aims{.name = "as predicted", .style = Style::kDashed};
  for (const double share : sizes) {
    for (const double x : {frames.front(), frames.back(), frames.back()}) {
      aims.x.push_back(x);
      aims.y.push_back(100 * share);
    }
    aims.y.back() = std::numeric_limits<double>::quiet_NaN();
  }
  plot.series.push_back(aims);
  add("90 %, before scaling",
      spread.at("coverage_per_frame_uncalibrated").at("90"), Style::kPoints);
  report.figure(
      "coverage-per-frame", plot,
      fmt::format(
          "How many nodes of {} test cases lie inside the intervals "
          "that are predicted for them; dashed: how many should. Scaled "
          "by what validation cases say, and 90 % before that.",
          spread.at("cases").get<int64_t>()));
}

}  // namespace

void Forecast::draw_bands(torch::nn::Module& model,
                          const Evaluation* evaluation,
                          report::Report& report) {
  const torch::NoGradGuard no_grad;
  auto& forecaster = as_forecaster(model);
  if (!forecaster.predicts_variance()) return;
  const int64_t visible = forecaster.visible();
  const auto spread = spread_of(forecaster);
  const int64_t cases = std::min(kShownCases, data_->size(data::Split::kTest));
  const auto batch = data_->range(data::Split::kTest, 0, cases);
  const auto first = batch.frames.narrow(1, 0, visible);
  const auto said = predictive(forecaster, spread.members, first, batch.alpha,
                               draw_options(0));
  auto few = draw_options(0);
  few.draws = kShownDraws;
  const auto scale =
      spread.scale.to(said.deviation.options()).view({1, -1, 1, 1});
  const ShownSpread shown{
      batch.frames.cpu(), said.mean.cpu(), (said.deviation * scale).cpu(),
      draw_trajectories(forecaster, spread, first, batch.alpha, few).cpu()};
  const std::string quantity =
      data_->is_heat() ? "normalised temperature" : "value";
  for (int64_t n = 0; n < cases; ++n) {
    draw_centre(shown, n, quantity, visible, report);
  }
  draw_maps(shown, ShownFrames(visible, plate_.frames), x_axis(), y_axis(),
            report);
  if (evaluation != nullptr && evaluation->numbers.contains("spread")) {
    draw_coverage(evaluation->numbers.at("spread"), report);
  }
}

}  // namespace propagator::tasks
