#include <algorithm>
#include <set>

#include "propagator/tasks/solve.h"

// What a solution shows: its curves, its fields, its rows beside each other.

namespace propagator::tasks {
namespace {

using models::as_field_net;
using nlohmann::json;
using torch::Tensor;

report::BarChart errors_of(std::span<const train::ReproducedRow> rows) {
  report::BarChart chart;
  chart.title = "Relative L2";
  chart.y.label = "relative L2";
  chart.y.log = true;
  chart.bars.push_back({"ours, median of seeds", {}});
  chart.bars.push_back({"document, mean of seeds", {}});
  for (const auto& row : rows) {
    chart.categories.push_back(row.name);
    chart.bars[0].values.push_back(row.summary.at("value"));
    const auto& document = row.summary.at("document");
    chart.bars[1].values.push_back(document.is_null() ? std::nan("")
                                                      : document.get<double>());
  }
  return chart;
}

// Rows that solve the same problem.
struct SameProblem {
  std::string first;  // row
  std::string name;   // the words that all begin with: "wave"
  std::vector<report::ComparedMaps> rows = {};
};

// "wave" of wave-kan and wave-pinn; the first one if they have nothing in
// common.
std::string common_beginning(const std::string& a, const std::string& b) {
  auto common = a;
  while (!(b + "-").starts_with(common + "-")) {
    const auto cut = common.rfind('-');
    if (cut == std::string::npos) return a;
    common.resize(cut);
  }
  return common;
}

// The row's name, which has the model's at its end if it is a document's.
std::string title_of(const train::ReproducedRow& row,
                     const std::string& model) {
  auto title = row.name;
  if (!title.ends_with("-" + model)) title += fmt::format(" ({})", model);
  const std::string mode = row.summary.at("mode");
  return mode == "honest" ? title : fmt::format("{}, {}", title, mode);
}

std::vector<SameProblem> by_problem(
    std::span<const train::ReproducedRow> rows) {
  std::vector<SameProblem> problems;
  for (const auto& row : rows) {
    auto maps = row.maps();
    if (!maps) continue;
    const auto remark =
        fmt::format("{} {}", row.summary.at("metric").get<std::string>(),
                    report::scientific(row.summary.at("value")));
    auto same = std::ranges::find_if(problems, [&](const SameProblem& problem) {
      return problem.rows.front().maps.subject == maps->subject;
    });
    if (same == problems.end()) {
      same = problems.insert(same, {row.name, row.name});
    }
    same->name = common_beginning(same->name, row.name);
    same->rows.push_back(
        {title_of(row, maps->model), remark, std::move(*maps)});
  }
  std::set<std::string> taken;
  for (auto& [first, name, same] : problems) {
    if (!taken.insert(name).second) name = first;
  }
  return problems;
}

}  // namespace

report::LinePlot Solve::curves(const json& result) const {
  const auto along =
      static_cast<size_t>(std::max<int64_t>(0, problem_->time()));
  const auto& name = problem_->symbols.variables[along];
  const auto& [low, high] = problem_->domain[along];
  report::LinePlot plot{.title = "Error along " + name,
                        .x = {.label = name},
                        .y = {.label = "relative L2", .log = true}};
  if (!result.contains("error_along")) return plot;
  report::Series series{.name = "ours"};
  series.y = result.at("error_along").get<std::vector<double>>();
  const auto count = static_cast<double>(series.y.size());
  for (size_t n = 0; n < series.y.size(); ++n) {
    series.x.push_back(low +
                       (high - low) * (static_cast<double>(n) + 0.5) / count);
  }
  plot.series.push_back(std::move(series));
  return plot;
}

std::vector<train::NamedFigure> Solve::draw_rows(
    std::span<const train::ReproducedRow> rows) const {
  std::vector<train::NamedFigure> figures;
  if (rows.size() > 1) {
    figures.push_back(
        {"solve", errors_of(rows), "Each row of the document that was run."});
  }
  for (const auto& problem : by_problem(rows)) {
    figures.push_back({"solve-" + problem.name,
                       report::compare(problem.name, problem.rows),
                       "The fields of each row's seed with the median, and "
                       "how far they are from the solution."});
  }
  return figures;
}

Tensor Solve::pictures(const Tensor& values) const {
  const int64_t cells = eval_options_.per_axis;
  return values.to(torch::kFloat64).t().reshape({-1, cells, cells}).flip(1);
}

report::FieldMaps Solve::maps_of(const Answer& answer) {
  // Of the centres of cells.
  const auto axis = [&](size_t variable) {
    const auto& [low, high] = problem_->domain[variable];
    const double half =
        (high - low) / static_cast<double>(2 * eval_options_.per_axis);
    return report::Axis{problem_->symbols.variables[variable], low + half,
                        high - half};
  };
  const auto across = axis(1), up = axis(0);
  report::FieldMaps maps{
      .subject = fmt::format("{}{} cells", problem_->describe(),
                             eval_options_.per_axis),
      .model = model_name_,
      .names = problem_->symbols.fields,
      .x = across,
      .y = {.label = up.label, .first = up.last, .last = up.first},
      .answer = pictures(answer.fields)};
  if (const auto* known = reference()) {
    maps.truth = pictures(known->fields);
    maps.truth_name = problem_->exact.empty() ? "reference" : "exact";
  }
  return maps;
}

std::optional<report::FieldMaps> Solve::maps(torch::nn::Module& model) {
  if (problem_->domain.size() != 2) return std::nullopt;
  return maps_of(answer_of(as_field_net(model)));
}

void Solve::draw(torch::nn::Module& module, const json& result, int64_t,
                 report::Report& report) {
  report.text("The problem, as it was understood:");
  report.verbatim(problem_->describe());
  if (result.contains("error_along")) {
    report.figure("error", curves(result),
                  "Relative L2 of all fields at each value.");
  }
  if (problem_->domain.size() != 2) {
    report.text("Maps are drawn for problems of two variables.");
    return;
  }
  const auto answer = answer_of(as_field_net(module));
  const auto maps = maps_of(answer);
  for (size_t f = 0; f < maps.names.size(); ++f) {
    const auto at = static_cast<int64_t>(f);
    const auto& name = maps.names[f];
    report::HeatMaps figure{.title = name, .x = maps.x, .y = maps.y};
    report::PanelRow fields{.bar_label = name};
    fields.panels.push_back({"solution", maps.answer[at]});
    if (maps.truth.defined()) {
      fields.panels.push_back({maps.truth_name, maps.truth[at]});
    }
    figure.rows.push_back(fields);
    if (maps.truth.defined()) {
      figure.rows.push_back({.bar_label = "error",
                             .scale = report::Scale::kDiverging,
                             .panels = {{"solution - " + maps.truth_name,
                                         maps.answer[at] - maps.truth[at]}}});
    }
    report.figure(
        fmt::format("field-{}", name), figure,
        fmt::format("{} over {} and {}.", name, maps.y.label, maps.x.label));
  }
  report::HeatMaps figure{
      .title = "Residual of the equations", .x = maps.x, .y = maps.y};
  report::PanelRow row{.bar_label = "residual",
                       .scale = report::Scale::kDiverging};
  const auto residuals = pictures(answer.residuals);
  for (size_t n = 0; n < problem_->equations.size(); ++n) {
    row.panels.push_back(
        {problem_->equations[n].text(), residuals[static_cast<int64_t>(n)]});
  }
  figure.rows.push_back(row);
  report.figure("residual", figure,
                "What is left of each equation when the solution is put in.");
}

}  // namespace propagator::tasks
