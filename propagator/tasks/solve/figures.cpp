#include <fmt/ranges.h>
#include <torch/utils.h>

#include <algorithm>

#include "propagator/pde/text/typeset.h"
#include "propagator/tasks/compared_rows.h"
#include "propagator/tasks/solve/field_panels.h"
#include "propagator/tasks/solve/solve.h"

// What a solution shows: its curves, its fields, its rows beside each other.

namespace propagator::tasks {
namespace {

using models::as_field_net;
using nlohmann::json;
using torch::Tensor;

report::BarChart errors_of(std::span<const ReproducedRow> rows) {
  report::BarChart chart;
  chart.title = "Relative L2";
  chart.y.label = "relative L2";
  chart.y.log = true;
  chart.bars.push_back({"ours, median of seeds", {}});
  chart.bars.push_back({"published, mean of seeds", {}});
  for (const auto& row : rows) {
    chart.categories.push_back(row.name);
    chart.bars[0].values.push_back(row.summary.at("value"));
    const auto& document = row.summary.at("document");
    chart.bars[1].values.push_back(document.is_null() ? std::nan("")
                                                      : document.get<double>());
  }
  return chart;
}

std::vector<std::string> typeset(const std::vector<std::string>& lines,
                                 const pde::Symbols& symbols) {
  std::vector<std::string> all;
  for (const auto& line : lines) all.push_back(pde::typeset(line, symbols));
  return all;
}

}  // namespace

void Solve::state_problem(report::Report& report) const {
  const auto& text = problem_options_.text;
  const auto& symbols = problem_->symbols;
  std::vector<std::string> fields, inside, tables;
  for (const auto& field : text.fields) {
    fields.push_back(
        fmt::format("{}({})", field, fmt::join(symbols.variables, ", ")));
  }
  if (!text.inside.empty()) inside = {text.inside};
  for (const auto& [name, table] : symbols.tables) {
    tables.push_back(problem_->text(*table));
  }
  report.mathematics({{"Solve for", typeset(fields, symbols)},
                      {"Equations", typeset(text.equations, symbols)},
                      {"Domain", typeset(text.domain, symbols)},
                      {"Shapes", typeset(text.shapes, symbols)},
                      {"Inside", typeset(inside, symbols)},
                      {"Conditions", typeset(text.conditions, symbols)},
                      {"Find too", typeset(text.unknown, symbols)},
                      {"With", typeset(text.coefficients, symbols)},
                      {"By tables", typeset(tables, symbols)},
                      {"Numbers", typeset(text.parameters, symbols)},
                      {"Exact", typeset(text.exact, symbols)}});
}

report::LinePlot Solve::curves(const json& result) const {
  const auto along = static_cast<size_t>(reference_.followed());
  const auto& name = problem_->symbols.variables[along];
  report::LinePlot plot{.title = "Error along " + name,
                        .x = {.label = name},
                        .y = {.label = "relative L2", .log = true}};
  if (!result.contains("error_along")) return plot;
  report::Series series{.name = "ours"};
  series.y = result.at("error_along").get<std::vector<double>>();
  series.x = report::numbers(reference_.grid().along[along]);
  plot.series.push_back(std::move(series));
  return plot;
}

std::vector<NamedFigure> Solve::draw_rows(
    std::span<const ReproducedRow> rows) const {
  std::vector<NamedFigure> figures;
  if (rows.size() > 1) {
    figures.push_back({"solve", errors_of(rows),
                       "Each row of the publication that was run."});
  }
  for (const auto& problem : compared_rows(rows)) {
    figures.push_back({"solve-" + problem.name,
                       report::compare(problem.name, problem.rows),
                       "The fields of each row's seed with the median, and "
                       "how far they are from the solution."});
  }
  return figures;
}

report::FieldMaps Solve::maps_of(const Answer& answer,
                                 const SolvePlane& plane) {
  const auto across = plane.across(), up = plane.up();
  const auto places = plane.held_at();
  report::FieldMaps maps{
      .subject = fmt::format("{}{} points", problem_->describe(),
                             fmt::join(reference_.grid().shape(), " x ")),
      .model = model_name_,
      .x = across,
      .y = {.label = up.label, .first = up.last, .last = up.first},
      .aspect = plane.aspect(),
      .answer = plane.pictures(reference_.on_grid(answer.fields))};
  for (const auto& field : problem_->symbols.fields) {
    for (const auto& at : places) {
      maps.names.push_back(at.empty() ? field
                                      : fmt::format("{}, {}", field, at));
    }
  }
  if (const auto* known = reference_.find()) {
    maps.truth = plane.pictures(reference_.on_grid(known->fields));
    maps.truth_name = truth_name();
  }
  return maps;
}

std::optional<report::FieldMaps> Solve::maps(torch::nn::Module& model) {
  const auto where = plane();
  if (!where) return std::nullopt;
  return maps_of(answer_of(as_field_net(model)), *where);
}

void Solve::draw(torch::nn::Module& module, const Evaluation* evaluation,
                 int64_t, report::Report& report) {
  report.text("The problem, as it was understood:");
  report.verbatim(problem_->describe());
  if (evaluation != nullptr && !evaluation->curves.series.empty()) {
    report.figure("error", evaluation->curves,
                  "The L2 error of all fields at each value, relative to the "
                  "solution's on average.");
  }
  auto& model = as_field_net(module);
  if (const auto where = plane()) {
    const auto answer = answer_of(model);
    draw_maps(answer, *where, report);
    draw_own(model, report);
    draw_explorer(explored(model, answer), report);
    return;
  }
  if (problem_->domain.size() == 1) {
    draw_curves(answer_of(model), report);
  } else {
    report.text("Fields are drawn for problems of one to three variables.");
  }
  draw_own(model, report);
}

void Solve::draw_curves(const Answer& answer, report::Report& report) {
  const auto along = reference_.grid().axis(0);
  const auto x = report::numbers(reference_.grid().of(0));
  const auto* known = reference_.find();
  const auto& fields = problem_->symbols.fields;
  for (size_t f = 0; f < fields.size(); ++f) {
    const auto column = static_cast<int64_t>(f);
    report::LinePlot plot{.title = fields[f],
                          .x = {.label = along.label},
                          .y = {.label = fields[f]}};
    plot.series.push_back(
        {"solution", x, report::numbers(answer.fields.select(1, column))});
    if (known != nullptr) {
      plot.series.push_back({truth_name(), x,
                             report::numbers(known->fields.select(1, column)),
                             report::Series::Style::kDashed});
    }
    if (const auto read = readings_of(column);
        read.points.defined() && read.points.size(0) > 0) {
      plot.series.push_back(
          {"readings", report::numbers(read.points.select(1, 0)),
           report::numbers(read.values), report::Series::Style::kPoints});
    }
    report.lead("field-" + fields[f], plot,
                fmt::format("{} along {}.", fields[f], along.label));
  }
  report::LinePlot left{.title = "Residual of the equations",
                        .x = {.label = along.label},
                        .y = {.label = "residual"}};
  for (size_t n = 0; n < problem_->equations.size(); ++n) {
    left.series.push_back(
        {problem_->equations[n].text(), x,
         report::numbers(answer.residuals.select(1, static_cast<int64_t>(n)))});
  }
  report.figure("residual", left,
                "What is left of each equation when the solution is put in.");
}

const char* Solve::truth_name() const {
  return problem_->exact.empty() ? "reference" : "exact";
}

std::optional<report::GridSeries> Solve::grid(torch::nn::Module& model) {
  const auto& grid = reference_.grid();
  const int64_t time = problem_->time();
  report::GridSeries series{.times = {0}};
  std::vector<int64_t> order;  // of what follows the column: T, Z, Y, X
  for (int64_t v = 0; v < std::ssize(problem_->domain); ++v) {
    if (v == time) continue;
    series.axes.push_back(grid.axis(v));
    order.insert(order.begin(), v);
  }
  if (series.axes.empty() || series.axes.size() > 3) return std::nullopt;
  if (time >= 0) {
    order.insert(order.begin(), time);
    series.times = report::numbers(grid.of(time));
  }
  const auto add = [&](const std::string& name, const Tensor& column) {
    auto values = reference_.on_grid(column.unsqueeze(1))
                      .reshape(grid.shape())
                      .permute(order);
    series.arrays.push_back({name, time < 0 ? values.unsqueeze(0) : values});
  };
  const auto answer = answer_of(as_field_net(model));
  const auto* known = reference_.find();
  for (size_t f = 0; f < problem_->symbols.fields.size(); ++f) {
    const auto& name = problem_->symbols.fields[f];
    const auto mine = answer.fields.select(1, static_cast<int64_t>(f));
    add(name, mine);
    if (known == nullptr) continue;
    const auto truth = known->fields.select(1, static_cast<int64_t>(f));
    add(fmt::format("{}_{}", name, truth_name()), truth);
    add(name + "_error", mine - truth);
  }
  for (int64_t e = 0; e < answer.residuals.size(1); ++e) {
    add(fmt::format("residual_{}", e + 1), answer.residuals.select(1, e));
  }
  return series;
}

void Solve::draw_maps(const Answer& answer, const SolvePlane& plane,
                      report::Report& report) {
  const auto maps = maps_of(answer, plane);
  const auto places = plane.held_at();
  const auto& fields = problem_->symbols.fields;
  const auto over = fmt::format("over {} and {}", maps.y.label, maps.x.label);
  for (size_t f = 0; f < fields.size(); ++f) {
    const auto number = static_cast<int64_t>(f);
    auto figure = report::figure_of(fields[f], maps);
    const auto read = readings_of(number);
    figure.rows =
        FieldPanels{fields[f], maps, number, places, dots_of(read, plane)}
            .fields();
    report.lead(
        "field-" + fields[f], figure,
        fmt::format("{} {}.{}", fields[f], over, remark_on(read, plane)));
  }
  auto figure = report::figure_of("Residual of the equations", maps);
  figure.rows =
      residual_panels(plane.pictures(reference_.on_grid(answer.residuals)),
                      problem_->equations, places);
  report.figure("residual", figure,
                "What is left of each equation when the solution is put in.");
}

}  // namespace propagator::tasks
