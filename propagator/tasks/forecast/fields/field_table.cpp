#include <fmt/ranges.h>

#include <cmath>
#include <limits>

#include "propagator/tasks/forecast/fields/field_forecast.h"
#include "propagator/tasks/forecast/fields/known_step.h"
#include "propagator/tasks/step_metrics.h"

// What the numbers of a test of fields say: table, remarks, metrics, curves.

namespace propagator::tasks {
namespace {

using nlohmann::json;
using report::scientific;

constexpr const char* kNrmse = "nRMSE";
constexpr const char* kGeometric = "nRMSE, geometric";
constexpr const char* kVrmse = "VRMSE";
constexpr const char* kRelative = "relative L2";
constexpr const char* kOneStep = "nRMSE, one step";
constexpr const char* kHiddenMse = "MSE, hidden frames";  // as plates have it

std::vector<double> counting_from(int64_t first, size_t count) {
  std::vector<double> numbers(count);
  for (size_t n = 0; n < count; ++n) {
    numbers[n] = static_cast<double>(first) + static_cast<double>(n);
  }
  return numbers;
}

// With the best baseline's nRMSE.
std::string headline_of(const json& r, double best) {
  const auto percent = [](double share) {
    return share < 0.1 ? fmt::format("{:.2g}\u00a0%", 100 * share)
                       : fmt::format("{:.0f}\u00a0%", 100 * share);
  };
  return fmt::format(
      "{} frames, forecast from {}, are off by {} of the field; the best "
      "baseline by {}.",
      r.at("forecast_frames").dump(), r.at("given_frames").dump(),
      percent(r.at("nrmse").get<double>()), percent(best));
}

std::string on_grid(const json& nodes) {
  return fmt::format("{}", fmt::join(nodes.get<std::vector<int64_t>>(), " x "));
}

std::string classical_row(const json& classical) {
  return fmt::format("solver of {} on {}",
                     classical.at("simulator").get<std::string>(),
                     on_grid(classical.at("grid")));
}

void remark_on_classical(const json& classical, double ours,
                         std::vector<std::string>& remarks) {
  if (classical.empty()) return;
  if (!classical.contains("nrmse")) {
    remarks.push_back("no solver goes on beside the network: " +
                      classical.at("missing").get<std::string>());
    return;
  }
  const double theirs = classical.at("nrmse").get<double>();
  remarks.push_back(fmt::format(
      "the {} goes on from the last given frame, with the parameters of each "
      "case, {}: its nRMSE is {:.3g} times ours",
      classical_row(classical),
      classical.at("in_time").get<bool>()
          ? "at most as long as the network"
          : "longer than the network, though no grid is coarser",
      theirs / ours));
}

void remark_on_sums(const json& r, std::vector<std::string>& remarks) {
  if (!r.contains("conserved")) return;
  const auto& sums = r.at("conserved");
  for (const auto& name : sums.at("channels")) {
    const auto largest = [&](const char* whose) {
      return sums.at(whose)
          .at(name.get<std::string>())
          .at("largest")
          .get<double>();
    };
    remarks.push_back(fmt::format(
        "the sum of {} over all nodes, which is conserved, drifts by {:.2e} of "
        "its absolute values (truth: {:.2e})",
        name.get<std::string>(), largest("drift"), largest("true_drift")));
  }
}

double number(const json& row, const char* key) {
  return row.at(key).get<double>();
}

// The largest drift of any sum, in words; "-" where none is conserved.
std::string drift_in_words(const json& r, const char* whose) {
  double largest = 0;
  for (const auto& [name, drift] : r.at("conserved").at(whose).items()) {
    largest = std::max(largest, number(drift, "largest"));
  }
  return scientific(largest);
}

// The table's rows and the curves of errors, of one answer after another.
class ErrorRows {
 public:
  explicit ErrorRows(const json& r)
      : given_(r.at("given_frames").get<int64_t>()),
        has_sums_(r.contains("conserved")),
        table_(head(r)) {
    plot_.title = "Error of each frame";
    plot_.x.label = "frame";
    plot_.y = {.label = kNrmse, .log = true};
    plot_.events = {{static_cast<double>(given_), "first forecast"}};
  }

  struct Row {
    std::string one_step = "-", drift = "-";
    std::optional<double> seconds = {};
    report::Series::Style style = report::Series::Style::kDashed;
  };
  void add(const std::string& name, const json& errors, const Row& row) {
    put({name, scientific(number(errors, "nrmse")),
         scientific(number(errors, "nrmse_geometric")),
         scientific(number(errors, "vrmse")),
         scientific(number(errors, "relative_l2")), row.one_step,
         fmt::format("{:.1f}", number(errors, "correlated_frames")),
         row.seconds ? fmt::format("{:.3g}", 1e3 * *row.seconds) : "-"},
        row.drift);
    const std::vector<double> each = errors.at("nrmse_per_frame");
    plot_.series.push_back(
        {name, counting_from(given_, each.size()), each, row.style});
  }
  void add_truth(const std::string& drift) {
    put({"truth", "-", "-", "-", "-", "-", "-", "-"}, drift);
  }

  const report::Table& table() const { return table_; }
  // With the band that has eight of ten cases, of the first row.
  report::LinePlot curves(const json& r) const {
    auto plot = plot_;
    plot.bands.push_back({.name = "80 % of cases",
                          .x = plot.series.front().x,
                          .low = r.at("nrmse_per_frame_10"),
                          .high = r.at("nrmse_per_frame_90")});
    return plot;
  }

 private:
  static report::Table head(const json& r) {
    std::vector<std::string> columns{
        fmt::format("{} error", r.at("split").get<std::string>()),
        kNrmse,
        kGeometric,
        kVrmse,
        kRelative,
        kOneStep,
        "correlated frames",
        "ms a case"};
    if (r.contains("conserved")) columns.emplace_back("drift of sums");
    return report::Table(columns);
  }
  void put(std::vector<std::string> cells, const std::string& drift) {
    if (has_sums_) cells.push_back(drift);
    table_.row(cells);
  }

  int64_t given_;
  bool has_sums_;
  report::Table table_;
  report::LinePlot plot_;
};

}  // namespace

std::vector<std::string> FieldForecast::metric_names() const {
  std::vector<std::string> names{kNrmse,    kGeometric, kVrmse,
                                 kRelative, kOneStep,   kHiddenMse};
  // A file that nobody simulates may say of itself what made it.
  const auto& simulator = data_options_.simulator;
  if (simulator.empty() || may_have_known_step(simulator)) {
    names.insert(names.end(), {kStepAtCells, kStepInData});
  }
  return names;
}

Evaluation FieldForecast::present(json r) const {
  const bool sums = r.contains("conserved");
  ErrorRows rows(r);
  rows.add(fmt::format("{} ({})", model_name_, mode()), r,
           {.one_step = scientific(number(r.at("one_step"), "nrmse")),
            .drift = sums ? drift_in_words(r, "drift") : "-",
            .seconds = number(r, "seconds_per_case"),
            .style = report::Series::Style::kLine});
  double best = std::numeric_limits<double>::infinity();
  for (const auto& [name, row] : r.at("baselines").items()) {
    rows.add(name, row, {});
    best = std::min(best, number(row, "nrmse"));
  }
  const auto classical = r.value("classical", json::object());
  if (classical.contains("nrmse")) {
    rows.add(classical_row(classical), classical,
             {.seconds = number(classical, "seconds_per_case")});
  }
  if (sums) rows.add_truth(drift_in_words(r, "true_drift"));
  const double ratio = best / number(r, "nrmse");
  Evaluation evaluation;
  evaluation.table = rows.table();
  evaluation.headline = headline_of(r, best);
  evaluation.remarks = {
      fmt::format("{:.1f} times {} the best baseline, {} cases, {} frames from "
                  "{} given ones",
                  ratio >= 1 ? ratio : 1 / ratio,
                  ratio >= 1 ? "below" : "above", r.at("cases").dump(),
                  r.at("forecast_frames").dump(), r.at("given_frames").dump()),
      fmt::format("nRMSE by frequency along an axis: {:.2e} up to 4, {:.2e} up "
                  "to 12, {:.2e} above",
                  number(r.at("bands"), "low"), number(r.at("bands"), "middle"),
                  number(r.at("bands"), "high")),
      "correlated frames: until the correlation with the truth is below 0.8"};
  remark_on_classical(classical, number(r, "nrmse"), evaluation.remarks);
  remark_on_sums(r, evaluation.remarks);
  evaluation.metrics = {{kNrmse, number(r, "nrmse")},
                        {kGeometric, number(r, "nrmse_geometric")},
                        {kVrmse, number(r, "vrmse")},
                        {kRelative, number(r, "relative_l2")},
                        {kOneStep, number(r.at("one_step"), "nrmse")},
                        {kHiddenMse, std::pow(number(r, "rmse"), 2)}};
  evaluation.curves = rows.curves(r);
  evaluation.numbers = std::move(r);
  return evaluation;
}

}  // namespace propagator::tasks
