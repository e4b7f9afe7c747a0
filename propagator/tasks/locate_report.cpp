#include <torch/utils.h>

#include <chrono>
#include <cmath>
#include <numbers>

#include "propagator/core/error.h"
#include "propagator/core/log.h"
#include "propagator/core/progress.h"
#include "propagator/tasks/event_table.h"
#include "propagator/tasks/locate.h"
#include "propagator/tasks/point_table.h"

// How answers are tested, shown and used.

namespace propagator::tasks {
namespace {

using models::as_locator;
using models::Located;
using nlohmann::json;
using physics::EventFit;
using torch::Tensor;

constexpr int64_t kDocumentBatch = 32;
constexpr int64_t kRadii = 8;         // shells of equal thickness
constexpr int64_t kBins = 60;         // of a histogram
constexpr double kShownError = 1e-6;  // m; fits may be exact
constexpr double kTimed = 0.5;        // s, of locating events again and again
constexpr double kLeastEvents = 20;   // for a median worth showing

Tensor distances(const Tensor& positions, const Tensor& truth) {
  return (positions - truth).square().sum(1).sqrt();
}

json as_json(const DistanceErrors& errors) {
  return {{"resolution", errors.resolution},
          {"median", errors.median},
          {"ninety", errors.ninety},
          {"mean", errors.mean}};
}

// The value below which this share of them lies.
double value_at(const Tensor& values, double share) {
  const auto sorted = std::get<0>(values.sort());
  const auto last = static_cast<double>(values.size(0) - 1);
  return sorted[static_cast<int64_t>(std::lround(share * last))].item<double>();
}

// Medians of `values` in classes 0 … count-1; NaN where there are few.
std::vector<double> medians_by(const Tensor& classes, const Tensor& values,
                               int64_t count) {
  std::vector<double> medians;
  for (int64_t n = 0; n < count; ++n) {
    const auto those = values.masked_select(classes == n);
    medians.push_back(static_cast<double>(those.size(0)) < kLeastEvents
                          ? std::nan("")
                          : value_at(those, 0.5));
  }
  return medians;
}

// Densities of `values` on equal bins of [-reach, reach]; what is beyond does
// not count.
json densities(const Tensor& values, double reach) {
  const auto counts = torch::histc(values, kBins, -reach, reach);
  const double width = 2 * reach / kBins;
  return {
      {"reach", reach},
      {"density", report::numbers(
                      counts / (static_cast<double>(values.numel()) * width))}};
}

report::Series histogram_series(const json& bins, const std::string& name) {
  report::Series series{.name = name};
  series.y = bins.at("density").get<std::vector<double>>();
  const double reach = bins.at("reach");
  for (size_t n = 0; n < series.y.size(); ++n) {
    series.x.push_back(reach * ((2 * static_cast<double>(n) + 1) / kBins - 1));
  }
  return series;
}

// L⁻¹ (truth - position), (N, 3): normal if the model's uncertainty is right.
Tensor pulls_of(const Located& located, const Tensor& truth) {
  const auto error = truth - located.position;
  const auto entry = [&](int64_t i, int64_t j) {
    return located.factor.select(1, i).select(1, j);
  };
  std::vector<Tensor> z;
  for (int64_t i = 0; i < 3; ++i) {
    auto left = error.select(1, i);
    for (int64_t j = 0; j < i; ++j) {
      left = left - entry(i, j) * z[static_cast<size_t>(j)];
    }
    z.push_back(left / entry(i, i));
  }
  return torch::stack(z, 1);
}

json pulls_json(const Tensor& pulls) {
  // 68.27 % of a normal distribution in space lie within this χ².
  constexpr double kCore = 3.5267;
  const auto inside =
      (pulls.square().sum(1) < kCore).to(torch::kFloat64).mean();
  return {{"mean", report::numbers(pulls.mean(0))},
          {"sigma", report::numbers(pulls.std(0))},
          {"within_68", inside.item<double>()},
          {"histogram", densities(pulls, 5)}};
}

double seconds_of(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
      .count();
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

physics::Events first_of(const physics::Events& events, int64_t count) {
  return {events.vertices.slice(0, 0, count), events.offsets.slice(0, 0, count),
          events.times.slice(0, 0, count), events.hits.slice(0, 0, count),
          events.drawn};
}

struct Classical {
  const char *key, *name;
  EventFit (*fit)(const physics::Detector&, const physics::Events&,
                  const physics::EventFitOptions&);
};
constexpr Classical kClassical[] = {
    {"least_squares", "least squares", physics::least_squares},
    {"maximum_likelihood", "maximum likelihood", physics::maximum_likelihood}};

}  // namespace

DistanceErrors distance_errors(const Tensor& positions, const Tensor& truth) {
  const auto d = distances(positions, truth);
  std::vector<Tensor> roots;
  for (int64_t n = 0; n < truth.size(0); n += kDocumentBatch) {
    const auto error = positions.slice(0, n, n + kDocumentBatch) -
                       truth.slice(0, n, n + kDocumentBatch);
    roots.push_back(error.square().mean().sqrt());
  }
  return {torch::stack(roots).mean().item<double>(), value_at(d, 0.5),
          value_at(d, 0.9), d.mean().item<double>()};
}

Located Locate::locate(models::Locator& model, const Sample& events) const {
  const torch::NoGradGuard no_grad;
  const PrecisionScope scope(runtime_);
  std::vector<Tensor> positions, factors;
  for (int64_t n = 0; n < events.size(); n += eval_options_.batch) {
    const auto part = [&](const Tensor& x) {
      return x.slice(0, n, n + eval_options_.batch);
    };
    const auto located =
        model.forward({part(events.times), part(events.hits), sensors_});
    positions.push_back(located.position.to(torch::kCPU, torch::kFloat64));
    if (located.factor.defined()) {
      factors.push_back(located.factor.to(torch::kCPU, torch::kFloat64));
    }
  }
  return {torch::cat(positions),
          factors.empty() ? Tensor() : torch::cat(factors)};
}

double Locate::rate_of(models::Locator& model, const Sample& events) const {
  double seconds = 0, located = 0;
  while (seconds < kTimed) {
    seconds += seconds_of([&] { locate(model, events); });
    located += static_cast<double>(events.size());
  }
  return located / seconds;
}

json Locate::evaluate(torch::nn::Module& module, data::Split split) {
  auto& model = as_locator(module);
  model.eval();
  const auto& events = sample(split);
  const auto truth = events.vertices.to(torch::kCPU, torch::kFloat64);
  const auto hits = events.hits.sum(1).to(torch::kCPU, torch::kInt64);
  const auto located = locate(model, events);
  if (!torch::isfinite(located.position).all().item<bool>()) {
    throw NumericalError("[eval] an answer is not finite");
  }
  json result{{"events", events.size()},
              {"model", as_json(distance_errors(located.position, truth))},
              {"bias", report::numbers((located.position - truth).mean(0))}};
  result["model"]["events_per_second"] = rate_of(model, events);
  const int64_t most = detector().sensors() + 1;
  const double reach =
      distances(truth, torch::zeros_like(truth)).max().item<double>();
  const auto shells = (distances(truth, torch::zeros_like(truth)) *
                       (static_cast<double>(kRadii) / reach))
                          .clamp_max(kRadii - 0.5)
                          .to(torch::kInt64);
  const auto error = distances(located.position, truth);
  result["radius"] = reach;
  result["by_hits"]["model"] = medians_by(hits, error, most);
  result["by_radius"]["model"] = medians_by(shells, error, kRadii);
  result["residuals"] =
      densities(located.position - truth, 3 * value_at(error, 0.9));
  if (located.factor.defined()) {
    result["pulls"] = pulls_json(pulls_of(located, truth));
  }
  const int64_t count = split == data::Split::kTest
                            ? std::min(eval_options_.classical, events.size())
                            : 0;
  if (count == 0) return result;
  // Fits of the same events, beside the network's answers to just these.
  result["classical_events"] = count;
  result["model_there"] = as_json(distance_errors(
      located.position.slice(0, 0, count), truth.slice(0, 0, count)));
  const auto fewer = first_of(test_events_, count);
  for (const auto& [key, name, fit] : kClassical) {
    log::info("{} of {} events", name, count);
    EventFit answer;
    const double seconds =
        seconds_of([&] { answer = fit(detector(), fewer, {}); });
    auto& row = result["classical"][key];
    row = as_json(distance_errors(answer.vertices, fewer.vertices));
    row["events_per_second"] = static_cast<double>(count) / seconds;
    row["ambiguous"] =
        answer.ambiguous.to(torch::kFloat64).mean().item<double>();
    const auto off = distances(answer.vertices, fewer.vertices);
    result["by_hits"][key] = medians_by(hits.slice(0, 0, count), off, most);
    result["by_radius"][key] =
        medians_by(shells.slice(0, 0, count), off, kRadii);
  }
  return result;
}

train::Summary Locate::summary(const json& result) const {
  report::Table table({"", "resolution (m)", "median (m)", "90 % (m)",
                       "mean (m)", "events per second"});
  const auto add = [&](const std::string& name, const json& row) {
    const auto metres = [&](const char* key) {
      return fmt::format("{:.3g}", row.at(key).get<double>());
    };
    table.row(
        {name, metres("resolution"), metres("median"), metres("ninety"),
         metres("mean"),
         row.contains("events_per_second")
             ? fmt::format("{:.3g}", row.at("events_per_second").get<double>())
             : "-"});
  };
  add(fmt::format("{} ({})", model_name_, mode()), result.at("model"));
  train::Summary summary{table, {}};
  if (result.contains("classical")) {
    const auto count = result.at("classical_events").get<int64_t>();
    if (count < result.at("events").get<int64_t>()) {
      add(fmt::format("the same, first {} events", count),
          result.at("model_there"));
    }
    for (const auto& [key, name, fit] : kClassical) {
      add(name, result.at("classical").at(key));
    }
    summary.table = table;
  }
  summary.remarks.push_back(fmt::format(
      "{} events; resolution is the mean over batches of {} of the root mean "
      "square of a coordinate, the others are of the distance",
      result.at("events").get<int64_t>(), kDocumentBatch));
  if (result.contains("pulls")) {
    const auto& pulls = result.at("pulls");
    const auto sigma = pulls.at("sigma").get<std::vector<double>>();
    summary.remarks.push_back(
        fmt::format("pulls have a spread of {:.2f}, {:.2f}, {:.2f} (1 is "
                    "right), and {:.1f} "
                    "% of the events lie in the 68.3 % region",
                    sigma[0], sigma[1], sigma[2],
                    100 * pulls.at("within_68").get<double>()));
  }
  return summary;
}

std::vector<train::Metric> Locate::metrics(const json& result) const {
  const auto& row = result.at("model");
  std::vector<train::Metric> metrics{{"median distance (m)", row.at("median")},
                                     {"resolution (m)", row.at("resolution")},
                                     {"90 % distance (m)", row.at("ninety")}};
  if (eval_options_.metric == LocateMetric::kResolution) {
    std::swap(metrics[0], metrics[1]);
  }
  return metrics;
}

namespace {

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
  for (const auto& [key, name, fit] : kClassical) add(key, name);
  return all;
}

}  // namespace

report::LinePlot Locate::curves(const json& result) const {
  return {.title = "Error by the number of hits",
          .x = {.label = "sensors hit"},
          .y = {.label = "median distance (m)", .log = true},
          .series = median_series(result.at("by_hits"), [](size_t n) {
            return static_cast<double>(n);
          })};
}

void Locate::draw(torch::nn::Module& module, const json& result, int64_t cases,
                  report::Report& report) {
  auto& model = as_locator(module);
  model.eval();
  if (!result.empty()) {
    report.figure(
        "hits", curves(result),
        "The more sensors fire, the better an event is known. What is below "
        "a micrometre is drawn there.");
    const double shell = result.at("radius").get<double>() / kRadii;
    report.figure(
        "radius",
        report::LinePlot{.title = "Error by place",
                         .x = {.label = "distance from the centre (m)"},
                         .y = {.label = "median distance (m)", .log = true},
                         .series = median_series(
                             result.at("by_radius"),
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
            .series = {histogram_series(result.at("residuals"), "ours")}},
        "All three coordinates together.");
    if (result.contains("pulls")) {
      report::LinePlot plot{.title = "Pulls",
                            .x = {.label = "error / uncertainty"},
                            .y = {.label = "density"}};
      plot.series.push_back(
          histogram_series(result.at("pulls").at("histogram"), "ours"));
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
  for (int64_t n = 0; n < std::min(cases, size(data::Split::kTest)); ++n) {
    draw_event(model, n, report);
  }
  draw_attention(model, report);
}

std::optional<train::CaptionedFigure> Locate::draw_rows(
    std::span<const train::ReproducedRow> rows) const {
  report::LinePlot plot{.title = "Resolution in training",
                        .x = {.label = "step"},
                        .y = {.label = "resolution (m)", .log = true}};
  for (const auto& row : rows) {
    const auto& validation = row.history.validation;
    const auto found = validation.terms.find("resolution");
    if (found == validation.terms.end()) continue;
    plot.series.push_back({row.name, validation.step, found->second});
  }
  if (plot.series.empty()) return std::nullopt;
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
  return train::CaptionedFigure{
      plot, "Of events held back from training, at each validation."};
}

void Locate::draw_event(models::Locator& model, int64_t index,
                        report::Report& report) const {
  const auto& all = sample(data::Split::kTest);
  const Sample one{all.vertices.slice(0, index, index + 1),
                   all.times.slice(0, index, index + 1),
                   all.hits.slice(0, index, index + 1)};
  const auto located = locate(model, one);
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
  locate(model, {all.vertices.slice(0, 0, count), all.times.slice(0, 0, count),
                 all.hits.slice(0, 0, count)});
  model.observe({});
  if (layers.empty()) return;
  const auto heads = static_cast<double>(layers.front().size(0));
  report::HeatMaps maps{
      .title = "What the summary token looks at",
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

std::string Locate::predict(torch::nn::Module& module, const std::string& input,
                            const std::string& output, const Runtime& runtime) {
  runtime_ = runtime;
  auto& model = as_locator(module);
  model.eval();
  expect_point_table(output);  // refuse a bad name before the work
  const auto table = read_events(input, detector());
  sensors_ = detector().positions().to(runtime.options());
  const auto located =
      locate(model, {torch::zeros({table.size(), 3}, runtime.options()),
                     table.times.to(runtime.options()),
                     table.hits.to(runtime.device)});
  std::vector<data::Column> columns{{"event", table.names.to(torch::kFloat64)}};
  const char* axes[] = {"x", "y", "z"};
  for (int64_t d = 0; d < 3; ++d) {
    columns.push_back({axes[d], located.position.select(1, d)});
  }
  for (int64_t d = 0; d < 3 && located.factor.defined(); ++d) {
    columns.push_back({fmt::format("sigma_{}", axes[d]),
                       located.factor.select(1, d).square().sum(1).sqrt()});
  }
  write_point_table(output, columns);
  return fmt::format("{} events located in {}", table.size(), output);
}

}  // namespace propagator::tasks
