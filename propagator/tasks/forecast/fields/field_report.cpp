#include <torch/utils.h>

#include <numeric>

#include "propagator/tasks/forecast/fields/field_figures.h"
#include "propagator/tasks/forecast/fields/field_forecast.h"

// What a forecast of fields shows.

namespace propagator::tasks {
namespace {

using data::Split;
using models::as_field_forecaster;
using torch::Tensor;

// Planes through a third axis: at a quarter, half and three quarters of it.
std::vector<int64_t> planes_of(int64_t nodes) {
  std::vector<int64_t> planes;
  for (const int64_t quarter : {1, 2, 3}) {
    const int64_t node = quarter * (nodes - 1) / 4;
    if (planes.empty() || node > planes.back()) planes.push_back(node);
  }
  return planes;
}

// Fields (…, X, Y), or at a node of a third axis (…, X, Y, Z), with x to the
// right and y upwards.
Tensor upright(const Tensor& fields, size_t axes, int64_t node) {
  const auto plane = axes == 3 ? fields.select(-1, node) : fields;
  return plane.transpose(-2, -1).flip(-2);
}

}  // namespace

report::Axis FieldForecast::axis(size_t d) const {
  const auto& axis = layout_.axes[d];
  return {.label = axis.name,
          .first = axis.at[0].item<double>(),
          .last = axis.at[-1].item<double>()};
}

FieldForecast::Shown FieldForecast::shown(models::FieldForecaster& model,
                                          Split split, int64_t first,
                                          int64_t count) const {
  const torch::NoGradGuard no_grad;
  model.eval();
  const auto batch = data(split).range(split, first, count);
  const int64_t given = data_options_.given;
  const auto truth = batch.frames.narrow(1, 0, given + steps(split));
  const auto answer = torch::cat(
      {truth.narrow(1, 0, given), forecast(model, batch, steps(split), {})}, 1);
  return {first, truth.to(torch::kCPU, torch::kFloat32),
          answer.to(torch::kCPU, torch::kFloat32),
          batch.constants.defined()
              ? batch.constants.to(torch::kCPU, torch::kFloat32)
              : Tensor()};
}

report::FieldSeries FieldForecast::series(const Shown& shown, int64_t channel,
                                          int64_t node) const {
  const int64_t frames = shown.truth.size(1);
  const bool line = layout_.axes.size() == 1;
  const auto plane = [&](const Tensor& all) {
    const auto one = all.select(-1, channel);
    return line ? one.unsqueeze(1)  // time downwards
                : upright(one, layout_.axes.size(), node);
  };
  report::FieldSeries series{
      .quantity = layout_.channels[static_cast<size_t>(channel)],
      .x = axis(0),
      .truth = plane(shown.truth),
      .prediction = plane(shown.answer)};
  if (line) {
    series.y = {.label = "frame", .last = static_cast<double>(frames - 1)};
    series.times = {0};
  } else {
    series.y = axis(1);
    std::swap(series.y.first, series.y.last);
    series.times.resize(static_cast<size_t>(frames));
    std::iota(series.times.begin(), series.times.end(), 0.0);
  }
  for (int64_t n = 0; n < shown.truth.size(0); ++n) {
    series.cases.push_back(fmt::format("case {}", shown.first + n + 1));
  }
  return series;
}

std::string FieldForecast::plane_name(int64_t node) const {
  const auto& axis = layout_.axes[2];
  return fmt::format("{} = {:.3g}", axis.name, axis.at[node].item<double>());
}

std::optional<report::FieldSeries> FieldForecast::fields(
    torch::nn::Module& model, Split split, int64_t first, int64_t count) {
  if (layout_.axes.size() < 2) return std::nullopt;
  const auto some = shown(as_field_forecaster(model), split, first, count);
  return series(some, 0, some.truth.size(-2) / 2);
}

report::FieldSeries FieldForecast::explored(const Shown& shown) const {
  const bool space = layout_.axes.size() == 3;
  const auto planes =
      space ? planes_of(shown.truth.size(4)) : std::vector<int64_t>{0};
  report::FieldSeries all;
  std::vector<Tensor> truth, answer;
  for (int64_t c = 0; c < std::ssize(layout_.channels); ++c) {
    for (const int64_t node : planes) {
      const auto one = series(shown, c, node);
      truth.push_back(one.truth);
      answer.push_back(one.prediction);
      for (const auto& name : one.cases) {
        all.cases.push_back(
            fmt::format("{}, {}{}", name, one.quantity,
                        space ? ", " + plane_name(node) : std::string()));
      }
      all.x = one.x, all.y = one.y, all.times = one.times;
    }
  }
  all.truth = torch::cat(truth);
  all.prediction = torch::cat(answer);
  return all;
}

void FieldForecast::draw_channel(const Shown& shown, int64_t channel,
                                 report::Report& report) const {
  const int64_t count = shown.truth.size(0), given = data_options_.given;
  const int64_t depth = shown.truth.size(-2);
  const auto all = series(shown, channel, depth / 2);
  const auto name =
      fmt::format("{}-{}", channel + 1, as_file_name(all.quantity));
  if (layout_.axes.size() == 1) {
    report.lead("fields-" + name, maps_of_lines(all),
                fmt::format("{} over space, to the right, and time, "
                            "downwards, of cases that were not trained on; the "
                            "first {} frames are given.",
                            all.quantity, given));
    return;
  }
  const bool space = layout_.axes.size() == 3;
  const auto where = space ? " at " + plane_name(depth / 2) : std::string();
  const auto frames = telling_frames(given, shown.truth.size(1));
  const auto caption = fmt::format(
      "{}{} of cases that were not trained on: truth, forecast from the first "
      "{} frames, and their difference.",
      all.quantity, where, given);
  report.lead("case-1-" + name, maps_over_time(all, {0}, frames), caption);
  if (space) {
    Slices slices{.quantity = all.quantity, .x = all.x, .y = all.y};
    std::vector<Tensor> truth, answer;
    for (const int64_t node : planes_of(depth)) {
      const auto plane = series(shown, channel, node);
      slices.titles.push_back(plane_name(node));
      truth.push_back(plane.truth[0][-1]);
      answer.push_back(plane.prediction[0][-1]);
    }
    slices.truth = torch::stack(truth);
    slices.answer = torch::stack(answer);
    report.figure("slices-" + name, maps_of_slices(slices),
                  fmt::format("{} of the first of these cases at frame {}, on "
                              "planes through it.",
                              all.quantity, frames.back()));
  }
  for (int64_t n = 1; n < count; ++n) {
    report.figure(
        fmt::format("case-{}-{}", n + 1, name),
        maps_over_time(all, {n}, {frames.front(), frames.back()}),
        fmt::format("{}{} of case {}, at the first and the last frame that is "
                    "forecast.",
                    all.quantity, where, shown.first + n + 1));
  }
}

void FieldForecast::draw_constants(const Shown& shown,
                                   report::Report& report) const {
  for (size_t k = 0; k < layout_.constants.size(); ++k) {
    const auto& quantity = layout_.constants[k];
    const auto one = shown.constants.select(-1, static_cast<int64_t>(k));
    ConstantInput input{.quantity = quantity, .x = axis(0)};
    for (int64_t n = 0; n < one.size(0); ++n) {
      input.cases.push_back(fmt::format("case {}", shown.first + n + 1));
    }
    std::string where;
    if (layout_.axes.size() == 1) {
      input.at = report::numbers(layout_.axes[0].at);
      input.values = one;
    } else {
      const int64_t node = one.size(-1) / 2;
      if (layout_.axes.size() == 3) where = " at " + plane_name(node);
      input.y = axis(1);
      std::swap(input.y.first, input.y.last);
      input.values = upright(one, layout_.axes.size(), node);
    }
    report.figure(
        fmt::format("constant-{}-{}", k + 1, as_file_name(quantity)),
        figure_of(input),
        fmt::format("{}{} of these cases: an input, which does not change in "
                    "time and is not forecast.",
                    quantity, where));
  }
}

void FieldForecast::draw(torch::nn::Module& model, const Evaluation* evaluation,
                         int64_t cases, report::Report& report) {
  cases = std::min(cases, data(Split::kTest).cases(Split::kTest));
  const auto some = shown(as_field_forecaster(model), Split::kTest, 0, cases);
  if (evaluation) {
    report.figure("errors", evaluation->curves,
                  "Error of each forecast frame, averaged over cases and "
                  "channels, beside answers that cost nothing. Eight of ten "
                  "cases are in the band.");
  }
  if (evaluation && evaluation->numbers.contains("conserved")) {
    report.figure("sums", drift_plot(evaluation->numbers),
                  "How far sums over all nodes, which are conserved, have "
                  "moved since the last given frame, as a share of the sum of "
                  "absolute values there; mean over cases.");
  }
  const auto frames = telling_frames(data_options_.given, some.truth.size(1));
  const auto channels = std::ssize(layout_.channels);
  for (int64_t c = 0; c < channels; ++c) {
    const auto& name = layout_.channels[static_cast<size_t>(c)];
    report.figure(
        fmt::format("spectra-{}-{}", c + 1, as_file_name(name)),
        spectra_plot(name, some.truth.select(-1, c), some.answer.select(-1, c),
                     frames),
        "Energy at each frequency, the largest along any axis, mean of the "
        "cases below: what a forecast lacks at high ones is blurred. The bands "
        "are those of the errors by frequency; less than 1e-10 of the largest "
        "is rounding, and left out.");
  }
  report.section("Fields");
  for (int64_t c = 0; c < channels; ++c) draw_channel(some, c, report);
  draw_constants(some, report);
  if (layout_.axes.size() > 1) {
    report.animation(series(some, 0, some.truth.size(-2) / 2), {0}, "forecast",
                     "Truth and forecast of one case, frame by frame.");
  }
  report.text(
      "Look for yourself: choose a case, move through time, point at a node to "
      "read it and see its history; a click keeps the node.");
  report.explorer(explored(some));
}

}  // namespace propagator::tasks
