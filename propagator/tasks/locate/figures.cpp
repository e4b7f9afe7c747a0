#include <torch/utils.h>

#include <cmath>
#include <numbers>

#include "propagator/tasks/locate/locate.h"
#include "propagator/tasks/locate/location_errors.h"

// How a test's answers are drawn.

namespace propagator::tasks {
namespace {

using models::as_locator;
using nlohmann::json;
using torch::Tensor;

constexpr double kShownError = 1e-6;  // m; fits may be exact

report::Series histogram_series(const json& bins, const std::string& name) {
  report::Series series{.name = name};
  series.y = bins.at("density").get<std::vector<double>>();
  const double reach = bins.at("reach");
  for (size_t n = 0; n < series.y.size(); ++n) {
    const auto bins = static_cast<double>(series.y.size());
    series.x.push_back(reach * ((2 * static_cast<double>(n) + 1) / bins - 1));
  }
  return series;
}

// The edges of the volume, as lines.
std::vector<Tensor> outline(const physics::DetectorVolume& volume) {
  const auto& c = volume.centre();
  const auto& h = volume.half();
  std::vector<Tensor> lines;
  const auto line = [&](const std::vector<std::array<double, 3>>& places) {
    std::vector<double> flat;
    for (const auto& p : places) {
      for (size_t d = 0; d < 3; ++d) flat.push_back(c[d] + h[d] * p[d]);
    }
    lines.push_back(torch::tensor(flat, torch::kFloat64).view({-1, 3}));
  };
  constexpr int kCorners = 48;
  for (const double z : {-1.0, 1.0}) {
    std::vector<std::array<double, 3>> ring;
    if (volume.round()) {
      for (int n = 0; n <= kCorners; ++n) {
        const double angle = 2 * std::numbers::pi * n / kCorners;
        ring.push_back({std::cos(angle), std::sin(angle), z});
      }
    } else {
      ring = {{-1, -1, z}, {1, -1, z}, {1, 1, z}, {-1, 1, z}, {-1, -1, z}};
    }
    line(ring);
  }
  for (int n = 0; n < 4; ++n) {
    const double angle = std::numbers::pi * (0.25 + 0.5 * n);
    const double reach = volume.round() ? 1 : std::numbers::sqrt2;
    const double x = reach * std::cos(angle), y = reach * std::sin(angle);
    line({{x, y, -1}, {x, y, 1}});
  }
  return lines;
}

// The medians of the model and of the fits, each at its classes' places.
std::vector<report::Series> median_series(
    const json& medians, const std::function<double(size_t)>& place) {
  std::vector<report::Series> all;
  const auto add = [&](const char* key, const char* name) {
    if (!medians.contains(key)) return;
    report::Series series{.name = name};
    const auto& values = medians.at(key);
    for (size_t n = 0; n < values.size(); ++n) {
      // NaN is null in a file.
      if (values[n].is_null() || std::isnan(values[n].get<double>())) continue;
      series.x.push_back(place(n));
      series.y.push_back(std::max(kShownError, values[n].get<double>()));
    }
    all.push_back(std::move(series));
  };
  add("model", "ours");
  for (const auto& [key, text] : kFits) add(key, text);
  return all;
}

// What the numbers of a test show.
void draw_numbers(const Evaluation& evaluation, report::Report& report) {
  const auto& numbers = evaluation.numbers;
  report.lead(
      "hits", evaluation.curves,
      "The more sensors fire, the better an event is known. What is below "
      "a micrometre is drawn there.");
  const double shell =
      numbers.at("radius").get<double>() /
      static_cast<double>(numbers.at("by_radius").at("model").size());
  report.figure(
      "radius",
      report::LinePlot{.title = "Error by place",
                       .x = {.label = "distance from the centre (m)"},
                       .y = {.label = "median distance (m)", .log = true},
                       .series = median_series(
                           numbers.at("by_radius"),
                           [&](size_t n) {
                             return shell * (static_cast<double>(n) + 0.5);
                           })},
      "Events by their distance from the centre of the detector.");
  report.figure(
      "residuals",
      report::LinePlot{
          .title = "Residuals",
          .x = {.label = "answer - truth, a coordinate (m)"},
          .y = {.label = "density (1/m)"},
          .series = {histogram_series(numbers.at("residuals"), "ours")}},
      "All three coordinates together.");
  if (numbers.contains("pulls")) {
    report::LinePlot plot{.title = "Pulls",
                          .x = {.label = "error / uncertainty"},
                          .y = {.label = "density"}};
    plot.series.push_back(
        histogram_series(numbers.at("pulls").at("histogram"), "ours"));
    report::Series normal{.name = "normal",
                          .style = report::Series::Style::kDashed};
    for (const double x : plot.series.front().x) {
      normal.x.push_back(x);
      normal.y.push_back(std::exp(-x * x / 2) /
                         std::sqrt(2 * std::numbers::pi));
    }
    plot.series.push_back(normal);
    report.figure("pulls", plot,
                  "Errors in units of the uncertainty that the model gives: "
                  "a normal distribution if that is right.");
  }
}

}  // namespace

report::LinePlot errors_by_hits(const json& result) {
  return {.title = "Error by the number of hits",
          .x = {.label = "sensors hit"},
          .y = {.label = "median distance (m)", .log = true},
          .series = median_series(result.at("by_hits"), [](size_t n) {
            return static_cast<double>(n);
          })};
}

void Locate::draw(torch::nn::Module& module, const Evaluation* evaluation,
                  int64_t cases, report::Report& report) {
  auto& model = as_locator(module);
  model.eval();
  if (evaluation != nullptr) draw_numbers(*evaluation, report);
  for (int64_t n = 0; n < std::min(cases, size(data::Split::kTest)); ++n) {
    draw_event(model, n, report);
  }
  draw_attention(model, report);
}

std::vector<NamedFigure> Locate::draw_rows(
    std::span<const ReproducedRow> rows) const {
  if (rows.size() < 2) return {};
  report::LinePlot plot{.title = "Resolution in training",
                        .x = {.label = "step"},
                        .y = {.label = "resolution (m)", .log = true}};
  for (const auto& row : rows) {
    const auto& validation = row.history.validation;
    const auto found = validation.terms.find("resolution");
    if (found == validation.terms.end()) continue;
    const auto& [step, resolution] = found->second;
    plot.series.push_back({row.name, step, resolution});
  }
  if (plot.series.empty()) return {};
  // Fits of events in the same detector: the first row's.
  const auto& result = rows.front().summary.at("result");
  if (result.contains("classical")) {
    const double limit =
        result.at("classical").at("least_squares").at("resolution");
    const auto& steps = plot.series.front().x;
    plot.series.push_back({"least squares",
                           {steps.front(), steps.back()},
                           {limit, limit},
                           report::Series::Style::kDashed});
  }
  return {{"locate", plot, "Of the validation events, at each validation."}};
}

void Locate::draw_event(models::Locator& model, int64_t index,
                        report::Report& report) const {
  const auto& all = sample(data::Split::kTest);
  const auto located = locate(model, all.slice(index, index + 1));
  const auto truth = test_events_.vertices[index];
  const auto hits = test_events_.hits[index];
  report::Scene scene{
      .title = fmt::format("Event {}", index + 1),
      .value_label = "hit time (ns)",
      .points = detector().positions(),
      .values = test_events_.times[index].masked_fill(hits.logical_not(),
                                                      std::nan("")),
      .known_name = "sensor, hit",
      .unknown_name = "not hit",
      .lines = outline(detector().volume()),
      .marks = {{"event", truth}, {"located", located.position[0]}}};
  report.figure(
      fmt::format("event-{}", index + 1), scene,
      fmt::format(
          "{} of {} sensors fired; located {:.3g} m from the event.",
          hits.sum().item<int64_t>(), detector().sensors(),
          distances(located.position, truth.unsqueeze(0)).item<double>()));
}

void Locate::draw_attention(models::Locator& model,
                            report::Report& report) const {
  const auto& all = sample(data::Split::kTest);
  const int64_t count = std::min<int64_t>(all.size(), eval_options_.batch);
  std::vector<Tensor> layers;
  model.observe([&](int64_t, const Tensor& weights) {
    layers.push_back(weights.mean(0).to(torch::kCPU, torch::kFloat64));
  });
  locate(model, all.slice(0, count));
  model.observe({});
  if (layers.empty()) return;
  const auto heads = static_cast<double>(layers.front().size(0));
  report::HeatMaps maps{
      .title = "What the summary attends to",
      .x = {"sensor", 1, static_cast<double>(detector().sensors())},
      .y = {"head", 1, heads},
      .panel_width = 460,
      .panel_height = 90};
  for (size_t n = 0; n < layers.size(); ++n) {
    maps.rows.push_back(
        {.bar_label = "weight",
         .panels = {{fmt::format("layer {}", n + 1), layers[n]}}});
  }
  report.figure("attention", maps,
                fmt::format("Mean attention over {} events.", count));
}

}  // namespace propagator::tasks
