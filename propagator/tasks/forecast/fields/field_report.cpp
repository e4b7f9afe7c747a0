#include <torch/utils.h>

#include "propagator/tasks/forecast/fields/field_forecast.h"

// What a forecast of fields shows.

namespace propagator::tasks {
namespace {

using data::Split;
using models::as_field_forecaster;
using torch::Tensor;

constexpr size_t kShownFrames = 3;

// Given and forecast frames worth a panel: the first forecast one, one in the
// middle, the last.
std::array<int64_t, kShownFrames> shown_frames(int64_t given, int64_t frames) {
  return {given, (given + frames - 1) / 2, frames - 1};
}

report::PanelRow row_of(const std::string& label, const std::string& bar,
                        const Tensor& like) {
  return {
      .label = label,
      .bar_label = bar,
      .range = std::pair(like.min().item<double>(), like.max().item<double>())};
}

}  // namespace

report::Axis FieldForecast::axis(size_t d) const {
  const auto& axis = layout_.axes[d];
  return {.label = axis.name,
          .first = axis.at[0].item<double>(),
          .last = axis.at[-1].item<double>()};
}

report::FieldSeries FieldForecast::series(models::FieldForecaster& model,
                                          Split split, int64_t first,
                                          int64_t count,
                                          int64_t channel) const {
  const torch::NoGradGuard no_grad;
  model.eval();
  const auto batch = data_->range(split, first, count);
  const int64_t given = data_options_.given;
  const auto truth = batch.frames.narrow(1, 0, given + steps());
  const auto answer =
      torch::cat({truth.narrow(1, 0, given), forecast(model, batch, {})}, 1);
  const auto plane = [&](const Tensor& all) {
    auto one = all.select(-1, channel).to(torch::kCPU, torch::kFloat32);
    if (one.dim() == 5) one = one.select(4, one.size(4) / 2);
    if (one.dim() == 3) return one;  // (N, T, nodes)
    return one.transpose(2, 3);      // y downwards, x to the right
  };
  report::FieldSeries series{
      .quantity = layout_.channels[static_cast<size_t>(channel)],
      .x = axis(0),
      .truth = plane(truth),
      .prediction = plane(answer)};
  if (layout_.axes.size() > 1) series.y = axis(1);
  for (int64_t t = 0; t < truth.size(1); ++t) {
    series.times.push_back(static_cast<double>(t));
  }
  for (int64_t n = 0; n < truth.size(0); ++n) {
    series.cases.push_back(fmt::format("case {}", first + n + 1));
  }
  return series;
}

std::optional<report::FieldSeries> FieldForecast::fields(
    torch::nn::Module& model, Split split, int64_t first, int64_t count) {
  if (layout_.axes.size() < 2) return std::nullopt;
  return series(as_field_forecaster(model), split, first, count, 0);
}

void FieldForecast::draw_lines(models::FieldForecaster& model, int64_t cases,
                               report::Report& report) const {
  for (int64_t c = 0; c < std::ssize(layout_.channels); ++c) {
    const auto all = series(model, Split::kTest, 0, cases, c);
    const auto frames = static_cast<double>(all.times.size());
    report::HeatMaps maps{
        .title = "Truth, forecast and error",
        .x = all.x,
        .y = {.label = "frame", .first = 0, .last = frames - 1}};
    for (int64_t n = 0; n < std::ssize(all.cases); ++n) {
      const auto truth = all.truth[n], answer = all.prediction[n];
      auto row = row_of(all.cases[static_cast<size_t>(n)], all.quantity, truth);
      row.panels = {{"truth", truth}, {"forecast", answer}};
      maps.rows.push_back(row);
      maps.rows.push_back({.label = "",
                           .bar_label = "error",
                           .scale = report::Scale::kDiverging,
                           .panels = {{"forecast - truth", answer - truth}}});
    }
    report.figure(
        "fields-" + all.quantity, maps,
        fmt::format("{} over space, to the right, and time, downwards, of "
                    "cases that were not trained on; the first {} frames are "
                    "given.",
                    all.quantity, data_options_.given));
  }
}

void FieldForecast::draw(torch::nn::Module& model, const Evaluation* evaluation,
                         int64_t cases, report::Report& report) {
  auto& forecaster = as_field_forecaster(model);
  cases = std::min(cases, data_->cases(Split::kTest));
  if (evaluation) {
    report.figure("errors", evaluation->curves,
                  "Error of each forecast frame, averaged over cases and "
                  "channels, beside answers that cost nothing.");
  }
  report.section("Fields");
  if (layout_.axes.size() == 1) {
    draw_lines(forecaster, cases, report);
    return;
  }
  for (int64_t c = 0; c < std::ssize(layout_.channels); ++c) {
    const auto all = series(forecaster, Split::kTest, 0, cases, c);
    const auto frames =
        shown_frames(data_options_.given, std::ssize(all.times));
    report::HeatMaps maps{.title = "Truth, forecast and error",
                          .x = all.x,
                          .y = all.y,
                          .panel_width = 190,
                          .panel_height = 190};
    for (int64_t n = 0; n < std::ssize(all.cases); ++n) {
      const auto& name = all.cases[static_cast<size_t>(n)];
      auto truth = row_of(name, all.quantity, all.truth[n]);
      auto answer = truth;
      answer.label = "forecast";
      report::PanelRow error{.label = "error",
                             .bar_label = "error",
                             .scale = report::Scale::kDiverging};
      for (const int64_t t : frames) {
        const auto title = fmt::format("frame {}", t);
        truth.panels.push_back({title, all.truth[n][t]});
        answer.panels.push_back({title, all.prediction[n][t]});
        error.panels.push_back({title, all.prediction[n][t] - all.truth[n][t]});
      }
      maps.rows.insert(maps.rows.end(), {truth, answer, error});
    }
    report.figure("fields-" + all.quantity, maps,
                  fmt::format("{} of cases that were not trained on: truth, "
                              "forecast from the first {} frames, and their "
                              "difference.",
                              all.quantity, data_options_.given));
    if (c > 0) continue;
    report.animation(all, {0}, "forecast",
                     "Truth and forecast of one case, frame by frame.");
    report.explorer(all.thinned(40));
  }
}

}  // namespace propagator::tasks
