#include <torch/utils.h>

#include "propagator/tasks/forecast/forecast.h"

// What a forecast shows: its table, its curves, its pictures.

namespace propagator::tasks {
namespace {

using models::as_forecaster;
using nlohmann::json;
using report::HeatMaps;
using report::LinePlot;
using report::PanelRow;
using report::scientific;
using report::Series;

std::vector<double> counting(size_t count) {
  std::vector<double> numbers(count);
  for (size_t n = 0; n < count; ++n) numbers[n] = static_cast<double>(n);
  return numbers;
}

// Truth beside prediction at three times, a row for each case, on the case's
// own scale; and their differences.
void draw_panels(const report::FieldSeries& series, const ShownFrames& shown,
                 report::Report& report) {
  HeatMaps fields{.title = "Truth and prediction",
                  .x = series.x,
                  .y = series.y,
                  .panel_width = 132,
                  .panel_height = 132};
  auto errors = fields;
  errors.title = "Prediction - truth";
  errors.panel_width = errors.panel_height = 190;
  for (size_t n = 0; n < series.cases.size(); ++n) {
    const auto index = static_cast<int64_t>(n);
    const auto range = range_of(series, index);
    PanelRow pairs{.label = series.cases[n],
                   .bar_label = series.label(),
                   .range = std::pair(range.low, range.high)};
    PanelRow difference{.label = series.cases[n],
                        .bar_label = "error",
                        .scale = report::Scale::kDiverging};
    for (const int64_t t : {shown.early, shown.middle, shown.late}) {
      const auto truth = series.truth[index][t];
      const auto prediction = series.prediction[index][t];
      pairs.panels.push_back({fmt::format("truth, frame {}", t), truth});
      pairs.panels.push_back(
          {fmt::format("prediction, frame {}", t), prediction});
      difference.panels.push_back(
          {fmt::format("frame {}", t), prediction - truth});
    }
    fields.rows.push_back(pairs);
    errors.rows.push_back(difference);
  }
  report.lead(
      "fields", fields,
      fmt::format("Truth beside prediction at frames {}, {} and {} "
                  "of {} cases that were not trained on; one scale "
                  "a row.",
                  shown.early, shown.middle, shown.late, series.cases.size()));
  report.figure("errors", errors,
                "What is left when the truth is taken away; one scale a row, "
                "white is no error.");
}

constexpr const char* kMse = "MSE";
constexpr const char* kHiddenMse = "MSE, hidden frames";
constexpr const char* kTotalLoss = "total loss";
constexpr const char* kCoverageOff = "coverage of 90 %, points off";

std::string name_of_frame(int64_t frame) {
  return fmt::format("MSE, frame {}", frame);
}

std::vector<std::string> table_header(const json& r, bool heat) {
  std::vector<std::string> header{
      fmt::format("{} MSE", r.at("split").get<std::string>()), "all frames",
      "hidden frames"};
  for (const auto& frame : r.at("shown_frames")) {
    header.push_back(fmt::format("frame {}", frame.dump()));
  }
  if (heat) header.emplace_back(kTotalLoss);
  header.emplace_back(heat ? "ms a plate" : "ms a case");
  return header;
}

// Rows of a test's table: ours, the paper's, the baselines. The paper's number
// stands in the column of what it is.
void add_rows(const std::string& ours, const json& r, Evaluation& evaluation) {
  const bool heat = r.contains("total_loss");
  auto& table = evaluation.table;
  table = report::Table(table_header(r, heat));
  const auto add = [&](const std::string& name, const json& row) {
    std::vector<std::string> cells{name};
    for (const char* key :
         {"mse", "mse_hidden", "mse_early", "mse_middle", "mse_late"}) {
      cells.push_back(scientific(row.at(key).get<double>()));
    }
    if (heat) {
      cells.push_back(row.contains("total_loss")
                          ? scientific(row.at("total_loss").get<double>())
                          : "-");
    }
    cells.push_back(
        fmt::format("{:.3g}", 1e3 * row.at("seconds_per_case").get<double>()));
    table.row(cells);
  };
  add(ours, r);
  if (const auto& paper = r.at("paper"); !paper.is_null()) {
    const auto value = scientific(paper.at("value"));
    const bool total = paper.at("metric") == kTotalLoss;
    table.row({"heat-plate paper (published)", total ? "-" : value, "-", "-",
               "-", "-", total ? value : "-", "-"});
    evaluation.remarks.push_back(
        "the paper's number is of 401 frames of 26 x 26 nodes and of a model "
        "that sees its answer");
  }
  if (heat) {
    evaluation.remarks.push_back(
        "total loss: MSE + 0.001 physics + 0.1 boundary + 0.1 initial, the "
        "paper's test of models that give all frames at once");
  }
  // Baselines are given the visible frames, so the rest is what compares.
  double best = std::numeric_limits<double>::infinity();
  for (const auto& [name, row] : r.at("baselines").items()) {
    add(name, row);
    best = std::min(best, row.at("mse_hidden").get<double>());
  }
  const double ratio = best / r.at("mse_hidden").get<double>();
  evaluation.remarks.push_back(fmt::format(
      "{:.1f} times {} the {} on hidden frames, {} cases",
      ratio >= 1 ? ratio : 1 / ratio, ratio >= 1 ? "below" : "above",
      r.at("baselines").size() > 1 ? "better baseline" : "baseline",
      r.at("cases").dump()));
  if (!r.contains("classical")) return;
  for (const auto& [name, row] : r.at("classical").items()) add(name, row);
  evaluation.remarks.push_back(
      "explicit Euler, the scheme of our plates, goes on from the last given "
      "frame; alpha fitted: by least squares on the given frames");
}

// How far 90 % intervals are from holding 90 %, in points of per cent.
double points_off(const json& spread) {
  return 100 * std::abs(spread.at("coverage").at("90").get<double>() - 0.9);
}

void remark_on_spread(const json& spread, Evaluation& evaluation) {
  const auto percent = [&](const char* key, const char* interval) {
    return 100 * spread.at(key).at(interval).get<double>();
  };
  evaluation.remarks.push_back(fmt::format(
      "intervals of 50, 90 and 95 % hold {:.1f}, {:.1f} and {:.1f} % of the "
      "nodes of {} cases ({:.1f}, {:.1f} and {:.1f} % before they are scaled "
      "by validation cases)",
      percent("coverage", "50"), percent("coverage", "90"),
      percent("coverage", "95"), spread.at("cases").get<int64_t>(),
      percent("coverage_uncalibrated", "50"),
      percent("coverage_uncalibrated", "90"),
      percent("coverage_uncalibrated", "95")));
  auto mean =
      fmt::format("the 90 % interval of the mean over all nodes holds {:.1f} %",
                  percent("coverage_of_mean", "90"));
  if (spread.contains("coverage_of_mean_independent")) {
    mean += fmt::format(", {:.1f} % if errors of nodes were independent",
                        percent("coverage_of_mean_independent", "90"));
  }
  evaluation.remarks.push_back(mean);
}

LinePlot errors_of_frames(const std::string& ours, const json& r) {
  LinePlot plot{
      .title = "Error of each frame",
      .x = {.label = "frame"},
      .y = {.label = "mean square error", .log = true},
      .events = {{r.at("visible_frames").get<double>(), "first hidden frame"}}};
  const auto add = [&](const std::string& name, const json& row,
                       Series::Style style) {
    const std::vector<double> mse = row.at("mse_per_frame");
    plot.series.push_back({name, counting(mse.size()), mse, style});
  };
  add(ours, r, Series::Style::kLine);
  for (const auto& [name, row] : r.at("baselines").items()) {
    add(name, row, Series::Style::kDashed);
  }
  return plot;
}

}  // namespace

std::optional<Metric> Forecast::published() const {
  using enum physics::PlateConfiguration;
  struct Row {
    physics::PlateConfiguration configuration;
    bool autoregressive;
    double value;
  };
  // The heat-plate paper's tests: autoregressive ones as the MSE (challenge-1
  // is a figure only), the others as the total loss of training.
  static constexpr Row rows[] = {{kBase, false, 1.13e-6},
                                 {kBase, true, 3.2e-7},
                                 {kChallenge1, false, 8.43e-7},
                                 {kChallenge2, false, 2.78e-6},
                                 {kChallenge2, true, 4.21e-7}};
  for (const auto& row : rows) {
    if (row.configuration == plate_.configuration &&
        row.autoregressive == model_options_->autoregressive()) {
      return Metric{row.autoregressive ? kMse : kTotalLoss, row.value};
    }
  }
  return std::nullopt;
}

bool Forecast::has_published_sizes() const {
  return plate_.rows == 26 && plate_.cols == 26 && plate_.frames == 401 &&
         plate_.time_step == physics::TimeStep::kCfl;
}

std::vector<std::string> Forecast::metric_names() const {
  const auto model = make_model();
  const ShownFrames shown(models::as_forecaster(*model).visible(),
                          plate_.frames);
  std::vector<std::string> names{kMse,
                                 kHiddenMse,
                                 name_of_frame(shown.early),
                                 name_of_frame(shown.middle),
                                 name_of_frame(shown.late),
                                 kTotalLoss};
  if (predicts_variance()) names.emplace_back(kCoverageOff);
  return names;
}

Evaluation Forecast::present(json numbers) const {
  const auto members =
      numbers.value("spread", json::object()).value("members", int64_t{1});
  const auto ours =
      fmt::format("{}{} ({})", members > 1 ? fmt::format("{} x ", members) : "",
                  model_name_, mode());
  const auto paper = data_->is_heat() ? published() : std::nullopt;
  numbers["paper"] =
      paper ? json{{"metric", paper->name}, {"value", paper->value}} : json();
  Evaluation evaluation;
  add_rows(ours, numbers, evaluation);
  evaluation.headline = fmt::format(
      "Hidden frames are forecast with a mean square error of "
      "{:.2g}.",
      numbers.at("mse_hidden").get<double>());
  evaluation.curves = errors_of_frames(ours, numbers);
  const auto& shown = numbers.at("shown_frames");
  const auto frame = [&](int n) {
    return name_of_frame(shown[n].get<int64_t>());
  };
  evaluation.metrics = {{kMse, numbers.at("mse")},
                        {kHiddenMse, numbers.at("mse_hidden")},
                        {frame(0), numbers.at("mse_early")},
                        {frame(1), numbers.at("mse_middle")},
                        {frame(2), numbers.at("mse_late")}};
  if (numbers.contains("total_loss")) {
    evaluation.metrics.push_back({kTotalLoss, numbers.at("total_loss")});
  }
  if (numbers.contains("spread")) {
    const auto& spread = numbers.at("spread");
    remark_on_spread(spread, evaluation);
    evaluation.metrics.push_back({kCoverageOff, points_off(spread)});
  }
  for (auto& metric : evaluation.metrics) {
    if (paper && has_published_sizes() && metric.name == paper->name) {
      metric.published = paper->value;
    }
  }
  evaluation.numbers = std::move(numbers);
  return evaluation;
}

report::Axis Forecast::x_axis() const {
  if (data_->is_heat()) return {"x (m)", 0, plate_.width};
  return {"column", 0, static_cast<double>(plate_.cols - 1)};
}

report::Axis Forecast::y_axis() const {
  if (data_->is_heat()) return {"y (m)", plate_.height, 0};
  return {"row", 0, static_cast<double>(plate_.rows - 1)};
}

std::optional<report::FieldSeries> Forecast::fields(torch::nn::Module& model,
                                                    data::Split split,
                                                    int64_t first,
                                                    int64_t count) {
  const torch::NoGradGuard no_grad;
  model.eval();
  const int64_t available = data_->size(split);
  if (first < 0 || first >= available) {
    throw UsageError(fmt::format("expected a case from 0 to {}, got {}",
                                 available - 1, first));
  }
  count = std::min(count, available - first);
  const auto batch = data_->range(split, first, count);
  report::FieldSeries series{
      .quantity = data_->is_heat() ? "normalised temperature" : "value",
      .times = counting(plate_.frames),
      .x = x_axis(),
      .y = y_axis(),
      .truth = batch.frames.cpu()};
  for (int64_t n = 0; n < count; ++n) {
    series.cases.push_back(
        fmt::format("{} case {}", config::name_of(split), first + n));
  }
  auto& forecaster = as_forecaster(model);
  series.prediction = forecast(forecaster, batch, {}).cpu();
  if (model_options_->honest()) {
    // These are given, and `predict` returns them as they are.
    const int64_t visible = forecaster.visible();
    series.prediction.narrow(1, 0, visible)
        .copy_(series.truth.narrow(1, 0, visible));
  }
  return series;
}

void Forecast::draw(torch::nn::Module& model, const Evaluation* evaluation,
                    int64_t cases, report::Report& report) {
  const ShownFrames shown(as_forecaster(model).visible(), plate_.frames);
  if (evaluation != nullptr) {
    report.figure("error-per-frame", evaluation->curves,
                  "Mean square error of each frame over all test cases. The "
                  "baselines are given the visible frames.");
  }
  const auto series = *fields(model, data::Split::kTest, 0, cases);
  draw_panels(series, shown, report);
  draw_bands(model, evaluation, report);
  report.animation(series, {0}, "animation",
                   "The first case over time: truth, prediction and error.");
  report.text(
      "Look for yourself: choose a case, move through time, point at a node "
      "to read it and see its history; a click keeps the node.");
  report.explorer(series);
}

void Forecast::draw_model(torch::nn::Module& model, report::Report& report) {
  const auto internals = as_forecaster(model).internals();
  if (internals.output_emphasis.defined()) {
    report.figure(
        "output-weights",
        HeatMaps{.title = "Mean |weight| of the output projection",
                 .x = x_axis(),
                 .y = y_axis(),
                 .rows = {{.bar_label = "mean |weight|",
                           .panels = {{"", internals.output_emphasis}}}},
                 .panel_width = 280,
                 .panel_height = 280},
        "Which nodes the last layer puts its weight on (figure 31 of the "
        "heat-plate paper).");
  }
  if (internals.time_encoding.defined()) {
    const auto encoding = internals.time_encoding.cpu();
    const int64_t half = encoding.size(1) / 2;
    LinePlot waves{.title = "Time encoding, some of its features",
                   .x = {.label = "frame"},
                   .y = {.label = "value of the feature"}};
    for (const int64_t k :
         {int64_t{0}, half / 8, half / 4, half / 2, half - 1}) {
      const auto values = report::numbers(encoding.select(1, k));
      waves.series.push_back(
          {fmt::format("sine {}", k), counting(values.size()), values});
    }
    report.figure("time-encoding", waves,
                  "How a token is told its time: sines and cosines of "
                  "falling frequency (figure 6 of the heat-plate paper).");
  }
  if (internals.mask.defined()) {
    draw_mask(internals.mask.cpu(), as_forecaster(model).visible(), report);
  }
}

void Forecast::draw_mask(const torch::Tensor& mask, int64_t visible,
                         report::Report& report) const {
  // The corner where something happens; the rest goes on like it.
  const int64_t shown = std::min(plate_.frames, 4 * visible);
  const auto corner = mask.slice(0, 0, shown).slice(1, 0, shown);
  const auto last = static_cast<double>(shown - 1);
  const auto cells =
      torch::where(corner, torch::ones({}, torch::kFloat64),
                   torch::full({}, std::numeric_limits<double>::quiet_NaN(),
                               torch::kFloat64));
  report.figure(
      "mask",
      HeatMaps{.title = "Mask of the attention",
               .x = {"key (token)", 0, last},
               .y = {"query (token)", 0, last},
               .rows = {{.panels = {{"", cells}},
                         .bar = false,
                         .range = std::pair(0.0, 1.0)}},
               .panel_width = 280,
               .panel_height = 280},
      fmt::format("Which token may attend to which (yellow), for the first {} "
                  "tokens; grey is hidden (figures 16 and 17 of the "
                  "heat-plate paper).{}",
                  shown,
                  model_options_->honest() && model_options_->autoregressive()
                      ? " Token i carries frame i - 1 and predicts frame i."
                      : ""));
}

}  // namespace propagator::tasks
