#include <fmt/format.h>
#include <torch/utils.h>

#include <algorithm>
#include <limits>
#include <tuple>

#include "propagator/tasks/calibration.h"
#include "propagator/tasks/reconstruct/attention.h"
#include "propagator/tasks/reconstruct/reconstruct.h"
#include "propagator/tasks/solve/field_panels.h"

// What a rebuilt field shows beside the figures of `solve`.

namespace propagator::tasks {
namespace {

using models::as_field_net;
using torch::Tensor;

// Attention is a matrix of all sensors, computed plainly to be drawn.
constexpr int64_t kMaxAttending = 4096;

}  // namespace

Solve::Readings Reconstruct::readings_in(const Sensors& sensors,
                                         int64_t field) const {
  const auto& [points, readings] = sensors;
  const auto all = readings.select(1, field);
  // A file may have more fields than those that are used.
  const bool used = std::ranges::find(measured_, field) != measured_.end();
  const auto rows = torch::isfinite(all).nonzero().flatten().slice(
      0, 0, used ? all.size(0) : 0);
  return {points.index_select(0, rows), all.index_select(0, rows)};
}

Solve::Readings Reconstruct::readings_of(int64_t field) const {
  return readings_in(sensors_.training, field);
}

void Reconstruct::draw_own(models::FieldNet& model, report::Report& report) {
  draw_functions(model, report);
  if (!predicts_variance()) return;
  if (problem_->domain.size() == 1) {
    draw_bands(model, report);
  } else {
    draw_uncertainty(model, report);
  }
  std::vector<std::pair<std::string, CoverageCurve>> curves;
  if (sensors_.held_out.count() > 0) {
    curves.emplace_back("held out",
                        CoverageCurve::of(deviations_of(model, held_out_)));
  }
  curves.emplace_back("trained",
                      CoverageCurve::of(deviations_of(model, training_)));
  if (const auto at = new_readings()) {
    curves.emplace_back("new", CoverageCurve::of(deviations_of(model, *at)));
  }
  report.figure(
      "calibration", calibration_plot(curves),
      "How many readings lie inside the intervals that were predicted for "
      "them. Above the diagonal intervals are too wide, below it too narrow. "
      "If they were right, a share of this many readings would be inside the "
      "outer lines 95 times of 100.");
}

void Reconstruct::draw_uncertainty(models::FieldNet& model,
                                   report::Report& report) {
  const auto where = plane();
  if (!where) return;
  const auto outputs = outputs_at(model, reference_.points());
  const int64_t fields = Solve::outputs();
  const auto maps = maps_of({outputs.slice(1, 0, fields), {}}, *where);
  const auto all = where->pictures((outputs.slice(1, fields) / 2).exp());
  const auto places = where->held_at();
  const auto count = std::ssize(places);
  for (size_t k = 0; k < measured_.size(); ++k) {
    const auto& name =
        problem_->symbols.fields[static_cast<size_t>(measured_[k])];
    const auto read = readings_of(measured_[k]);
    auto figure =
        report::figure_of(fmt::format("Uncertainty of {}", name), maps);
    figure.rows =
        FieldPanels{name, maps, measured_[k], places, dots_of(read, *where)}
            .uncertainty(all.narrow(0, static_cast<int64_t>(k) * count, count));
    report.figure(
        "uncertainty-" + name, figure,
        fmt::format(
            "The standard deviation that is predicted for a reading of "
            "{}, noise included{}.{}",
            name,
            maps.truth.defined() ? ", beside how far the field is off" : "",
            remark_on(read, *where)));
  }
}

void Reconstruct::draw_bands(models::FieldNet& model, report::Report& report) {
  using Style = report::Series::Style;
  const auto outputs = outputs_at(model, reference_.points());
  const auto x = report::numbers(reference_.grid().of(0));
  const auto* known = reference_.find();
  for (size_t k = 0; k < measured_.size(); ++k) {
    const auto field = measured_[k];
    const auto& name = problem_->symbols.fields[static_cast<size_t>(field)];
    const auto value = outputs.select(1, field);
    const auto deviation =
        (outputs.select(1, Solve::outputs() + static_cast<int64_t>(k)) / 2)
            .exp();
    report::LinePlot plot{.title = fmt::format("Uncertainty of {}", name),
                          .x = {.label = reference_.grid().axis(0).label},
                          .y = {.label = name}};
    for (const auto& [text, share, opacity] :
         {std::tuple{"95 % of readings", 0.95, 0.2}, {"50 %", 0.5, 0.35}}) {
      const auto reach = normal_reach(share) * deviation;
      plot.bands.push_back({text, x, report::numbers(value - reach),
                            report::numbers(value + reach), opacity});
    }
    plot.series.push_back({"solution", x, report::numbers(value)});
    if (known != nullptr) {
      plot.series.push_back({truth_name(), x,
                             report::numbers(known->fields.select(1, field)),
                             Style::kDashed});
    }
    for (const auto& [text, sensors] :
         {std::pair{"readings", &sensors_.training},
          {"held out", &sensors_.held_out}}) {
      const auto read = readings_in(*sensors, field);
      if (read.values.size(0) == 0) continue;
      plot.series.push_back({text, report::numbers(read.points.select(1, 0)),
                             report::numbers(read.values), Style::kPoints});
    }
    report.figure(
        "uncertainty-" + name, plot,
        fmt::format("{0} with the bands that are to hold 50 and 95 % of "
                    "readings of it, noise included.{1}",
                    name,
                    sensors_.held_out.count() > 0
                        ? " Readings held out did not train it."
                        : ""));
  }
}

Solve::Explored Reconstruct::explored(models::FieldNet& model,
                                      const Answer& answer) {
  if (truth_options_.file.empty()) return Solve::explored(model, answer);
  // The test takes some snapshots; one who looks wants more of them.
  const auto all = read_gridded_fields(truth_options_.file, *problem_);
  const auto [grid, rows] = all.grid.every(explorer_strides(all.grid));
  SolveReference there(*problem_, eval_options_, freedoms(), grid,
                       all.fields.index_select(0, rows));
  const auto outputs = outputs_at(model, grid.points());
  return {grid, there.without_free_means(outputs.slice(1, 0, Solve::outputs())),
          there.find()->fields};
}

void Reconstruct::draw_model(torch::nn::Module& module,
                             report::Report& report) {
  const auto where = plane();
  const auto& points = sensors_.training.points;
  auto& model = as_field_net(module);
  if (!where || !attends_to_sensors(model)) return;
  if (points.size(0) > kMaxAttending) {
    report.text(
        fmt::format("Attention is drawn for up to {} sensors.", kMaxAttending));
    return;
  }
  const int64_t sensor =
      telling_sensor(points, problem_->domain, problem_->time());
  const auto attention =
      attention_at(model, windows_of(points.slice(0, sensor, sensor + 1)),
                   sensor, points.size(0));
  if (!attention) return;
  const auto places =
      where->near(points, std::numeric_limits<double>::infinity())[0];
  draw_attention(*attention, places, *where, report);
}

}  // namespace propagator::tasks
