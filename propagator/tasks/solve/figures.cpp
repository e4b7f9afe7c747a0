#include <algorithm>
#include <set>

#include "propagator/tasks/solve/solve.h"

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

// Pictures (S, R, C), each with where it is.
report::PanelRow row_of(const std::string& label, const std::string& bar_label,
                        const Tensor& pictures,
                        const std::vector<std::string>& places) {
  report::PanelRow row{.label = label, .bar_label = bar_label};
  for (size_t s = 0; s < places.size(); ++s) {
    row.panels.push_back({places[s], pictures[static_cast<int64_t>(s)]});
  }
  return row;
}

// Field f and its error, at one place beside each other, at several each in a
// row of its own.
void add_field(const report::FieldMaps& maps, size_t f,
               const std::string& field, const std::vector<std::string>& places,
               std::vector<report::PanelRow>& rows) {
  const auto count = std::ssize(places);
  const auto part = [&](const Tensor& all) {
    return all.narrow(0, static_cast<int64_t>(f) * count, count);
  };
  const bool has_truth = maps.truth.defined();
  const auto mine = part(maps.answer);
  const auto truth = has_truth ? part(maps.truth) : Tensor();
  const auto difference = "solution - " + maps.truth_name;
  if (count == 1) {
    auto& row = rows.emplace_back(row_of("", field, mine, {"solution"}));
    if (has_truth) row.panels.push_back({maps.truth_name, truth[0]});
  } else {
    rows.push_back(row_of("solution", field, mine, places));
    if (has_truth) {
      rows.push_back(row_of(maps.truth_name, field, truth, places));
      const auto both = torch::cat({mine, truth});
      rows[0].range = rows[1].range = {both.min().item<double>(),
                                       both.max().item<double>()};
    }
  }
  if (!has_truth) return;
  auto& error = rows.emplace_back(
      count == 1 ? row_of("", "error", mine - truth, {difference})
                 : row_of(difference, "error", mine - truth, places));
  error.scale = report::Scale::kDiverging;
}

// At one place all equations beside each other, at several a row for each.
void add_residuals(const Tensor& residuals,
                   const std::vector<pde::Expression>& equations,
                   const std::vector<std::string>& places,
                   std::vector<report::PanelRow>& rows) {
  const auto count = std::ssize(places);
  if (count == 1) {
    std::vector<std::string> texts;
    for (const auto& equation : equations) texts.push_back(equation.text());
    rows.push_back(row_of("", "residual", residuals, texts));
  } else {
    for (size_t n = 0; n < equations.size(); ++n) {
      rows.push_back(row_of(
          equations[n].text(), "residual",
          residuals.narrow(0, static_cast<int64_t>(n) * count, count), places));
    }
  }
  for (auto& row : rows) row.scale = report::Scale::kDiverging;
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
    figures.push_back({"solve", errors_of(rows),
                       "Each row of the publication that was run."});
  }
  for (const auto& problem : by_problem(rows)) {
    figures.push_back({"solve-" + problem.name,
                       report::compare(problem.name, problem.rows),
                       "The fields of each row's seed with the median, and "
                       "how far they are from the solution."});
  }
  return figures;
}

std::optional<Solve::Plane> Solve::plane() const {
  const auto variables = std::ssize(problem_->domain);
  if (variables == 2) {  // time goes to the right, or the first variable
    const int64_t across = std::max<int64_t>(0, problem_->time());
    return Plane{1 - across, across};
  }
  if (variables != 3) return std::nullopt;
  const int64_t held = problem_->time() < 0 ? 2 : problem_->time();
  const int64_t last = eval_options_.per_axis - 1;
  return Plane{held == 2 ? 1 : 2, held == 0 ? 1 : 0, held, {0, last / 2, last}};
}

Tensor Solve::pictures(const Tensor& values, const Plane& plane) const {
  const int64_t cells = eval_options_.per_axis;
  const auto all = values.to(torch::kFloat64).t();  // (K, N)
  if (plane.held < 0) {
    return all.reshape({-1, cells, cells})
        .permute({0, plane.up + 1, plane.across + 1})
        .flip(1);
  }
  return all.reshape({-1, cells, cells, cells})
      .permute({0, plane.held + 1, plane.up + 1, plane.across + 1})
      .index_select(1, torch::tensor(plane.cells))
      .flatten(0, 1)
      .flip(1);
}

report::Axis Solve::axis(int64_t variable) const {
  const auto n = static_cast<size_t>(variable);
  const auto& [low, high] = problem_->domain[n];
  const double half =
      (high - low) / static_cast<double>(2 * eval_options_.per_axis);
  return {problem_->symbols.variables[n], low + half, high - half};
}

std::vector<std::string> Solve::held_at(const Plane& plane) const {
  if (plane.held < 0) return {""};
  const auto along = axis(plane.held);
  std::vector<std::string> texts;
  for (const int64_t cell : plane.cells) {
    const double share = static_cast<double>(cell) /
                         static_cast<double>(eval_options_.per_axis - 1);
    texts.push_back(
        fmt::format("{} = {:.3g}", along.label,
                    along.first + share * (along.last - along.first)));
  }
  return texts;
}

// Lengths are drawn alike in both directions, unless that makes a strip.
double Solve::aspect(const Plane& plane) const {
  if (plane.across == problem_->time()) return 1;
  const auto length = [this](int64_t variable) {
    const auto& [low, high] = problem_->domain[static_cast<size_t>(variable)];
    return high - low;
  };
  return std::clamp(length(plane.up) / length(plane.across), 1.0 / 3, 3.0);
}

report::FieldMaps Solve::maps_of(const Answer& answer, const Plane& plane) {
  const auto across = axis(plane.across), up = axis(plane.up);
  const auto places = held_at(plane);
  report::FieldMaps maps{
      .subject = fmt::format("{}{} cells", problem_->describe(),
                             eval_options_.per_axis),
      .model = model_name_,
      .x = across,
      .y = {.label = up.label, .first = up.last, .last = up.first},
      .aspect = aspect(plane),
      .answer = pictures(answer.fields, plane)};
  for (const auto& field : problem_->symbols.fields) {
    for (const auto& at : places) {
      maps.names.push_back(at.empty() ? field
                                      : fmt::format("{}, {}", field, at));
    }
  }
  if (const auto* known = reference()) {
    maps.truth = pictures(known->fields, plane);
    maps.truth_name = problem_->exact.empty() ? "reference" : "exact";
  }
  return maps;
}

std::optional<report::FieldMaps> Solve::maps(torch::nn::Module& model) {
  const auto where = plane();
  if (!where) return std::nullopt;
  return maps_of(answer_of(as_field_net(model)), *where);
}

void Solve::draw(torch::nn::Module& module, const json& result, int64_t,
                 report::Report& report) {
  report.text("The problem, as it was understood:");
  report.verbatim(problem_->describe());
  if (result.contains("error_along")) {
    report.figure("error", curves(result),
                  "The L2 error of all fields at each value, relative to the "
                  "solution's on average.");
  }
  if (const auto where = plane()) {
    draw_maps(answer_of(as_field_net(module)), *where, report);
  } else {
    report.text("Maps are drawn for problems of two or three variables.");
  }
}

void Solve::draw_maps(const Answer& answer, const Plane& plane,
                      report::Report& report) {
  const auto maps = maps_of(answer, plane);
  const auto places = held_at(plane);
  const auto& fields = problem_->symbols.fields;
  const auto over = fmt::format("over {} and {}", maps.y.label, maps.x.label);
  for (size_t f = 0; f < fields.size(); ++f) {
    auto figure = report::figure_of(fields[f], maps);
    add_field(maps, f, fields[f], places, figure.rows);
    report.figure("field-" + fields[f], figure,
                  fmt::format("{} {}.", fields[f], over));
  }
  auto figure = report::figure_of("Residual of the equations", maps);
  const auto residuals = pictures(answer.residuals, plane);
  add_residuals(residuals, problem_->equations, places, figure.rows);
  report.figure("residual", figure,
                "What is left of each equation when the solution is put in.");
}

}  // namespace propagator::tasks
