#include <torch/utils.h>

#include "propagator/core/error.h"
#include "propagator/core/progress.h"
#include "propagator/core/stopwatch.h"
#include "propagator/tasks/forecast/fields/field_baselines.h"
#include "propagator/tasks/forecast/fields/field_errors.h"
#include "propagator/tasks/forecast/fields/field_forecast.h"

// The test of a forecast of fields: what is measured, and its table.

namespace propagator::tasks {
namespace {

using data::Split;
using models::as_field_forecaster;
using nlohmann::json;
using report::scientific;
using torch::Tensor;

constexpr const char* kNrmse = "nRMSE";
constexpr const char* kVrmse = "VRMSE";
constexpr const char* kRelative = "relative L2";
constexpr const char* kOneStep = "nRMSE, one step";

std::vector<double> counting_from(int64_t first, size_t count) {
  std::vector<double> numbers(count);
  for (size_t n = 0; n < count; ++n) {
    numbers[n] = static_cast<double>(first) + static_cast<double>(n);
  }
  return numbers;
}

}  // namespace

int64_t FieldForecast::steps() const {
  const int64_t room = data_->frames() - data_options_.given;
  return eval_options_.steps > 0 ? std::min(eval_options_.steps, room) : room;
}

std::vector<std::string> FieldForecast::metric_names() const {
  return {kNrmse, kVrmse, kRelative, kOneStep};
}

Evaluation FieldForecast::evaluate(torch::nn::Module& model, Split split) {
  const torch::NoGradGuard no_grad;
  auto& forecaster = as_field_forecaster(model);
  model.eval();
  const int64_t given = data_options_.given, steps = this->steps();
  const int64_t all = data_->cases(split);
  const int64_t cases =
      eval_options_.cases > 0 ? std::min(eval_options_.cases, all) : all;
  const MeanField mean(*data_);
  const LinearField linear(*data_, given);
  FieldErrors ours, one_step;
  std::map<std::string, FieldErrors> others;
  double seconds = 0, fastest = std::numeric_limits<double>::infinity();
  Progress progress("testing", cases * steps);
  for (int64_t n = 0; n < cases; n += eval_options_.batch) {
    const int64_t count = std::min(eval_options_.batch, cases - n);
    const auto batch = data_->range(split, n, count);
    const auto first = batch.frames.narrow(1, 0, given);
    const auto truth = batch.frames.narrow(1, given, steps);
    wait_for(runtime_);
    const Stopwatch clock;
    const auto answer = forecast(forecaster, batch, [&](int64_t frame) {
      progress.update(n * steps + frame * count);
    });
    wait_for(runtime_);
    seconds += clock.seconds();
    fastest = std::min(fastest, clock.seconds() / static_cast<double>(count));
    ours.add(truth, answer);
    one_step.add(
        truth, forecaster.forward(batch.frames.narrow(1, 0, given + steps - 1),
                                  told(batch)));
    others["last frame kept"].add(truth, keep_field(first, steps));
    others["mean of training"].add(truth, mean(first, steps));
    others["linear (DMD)"].add(truth, linear(first, steps));
  }
  const auto& channels = layout_.channels;
  json result = ours.numbers(channels);
  if (!std::isfinite(ours.nrmse())) {
    throw NumericalError("[eval] the forecast is not finite",
                         "train longer, or with loss.inputs=own");
  }
  result["one_step"] = one_step.numbers(channels);
  for (const auto& [name, errors] : others) {
    result["baselines"][name] = errors.numbers(channels);
  }
  result["linear_rank"] = linear.rank();
  result["split"] = config::name_of(split);
  result["cases"] = cases;
  result["given_frames"] = given;
  result["forecast_frames"] = steps;
  result["seconds_per_case"] = fastest;
  result["evaluation_seconds"] = seconds;
  return present(std::move(result));
}

Evaluation FieldForecast::present(json r) const {
  const auto ours = fmt::format("{} ({})", model_name_, mode());
  Evaluation evaluation;
  evaluation.table =
      report::Table({fmt::format("{} error", r.at("split").get<std::string>()),
                     kNrmse, kVrmse, kRelative, kOneStep, "correlated frames"});
  const auto number = [](const json& row, const char* key) {
    return row.at(key).get<double>();
  };
  report::LinePlot plot{
      .title = "Error of each frame",
      .x = {.label = "frame"},
      .y = {.label = kNrmse, .log = true},
      .events = {{r.at("given_frames").get<double>(), "first forecast"}}};
  const auto add = [&](const std::string& name, const json& row,
                       const std::string& one_step, auto style) {
    evaluation.table.row(
        {name, scientific(number(row, "nrmse")),
         scientific(number(row, "vrmse")),
         scientific(number(row, "relative_l2")), one_step,
         fmt::format("{:.1f}", number(row, "correlated_frames"))});
    const std::vector<double> each = row.at("nrmse_per_frame");
    plot.series.push_back(
        {name, counting_from(r.at("given_frames").get<int64_t>(), each.size()),
         each, style});
  };
  using enum report::Series::Style;
  add(ours, r, scientific(number(r.at("one_step"), "nrmse")), kLine);
  double best = std::numeric_limits<double>::infinity();
  for (const auto& [name, row] : r.at("baselines").items()) {
    add(name, row, "-", kDashed);
    best = std::min(best, number(row, "nrmse"));
  }
  const double ratio = best / number(r, "nrmse");
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
  evaluation.metrics = {{kNrmse, number(r, "nrmse")},
                        {kVrmse, number(r, "vrmse")},
                        {kRelative, number(r, "relative_l2")},
                        {kOneStep, number(r.at("one_step"), "nrmse")}};
  evaluation.curves = plot;
  evaluation.numbers = std::move(r);
  return evaluation;
}

}  // namespace propagator::tasks
