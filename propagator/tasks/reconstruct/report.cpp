#include <fmt/format.h>
#include <torch/utils.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "propagator/core/random.h"
#include "propagator/tasks/calibration.h"
#include "propagator/tasks/reconstruct/reconstruct.h"

// How a rebuilt field is tested.

namespace propagator::tasks {
namespace {

using nlohmann::json;
using report::scientific;
using torch::Tensor;

// Intervals in the table: how much of a normal number is inside.
constexpr std::array kIntervals = {std::pair{"50", 0.5}, std::pair{"90", 0.9},
                                   std::pair{"95", 0.95}};

constexpr const char* kRelativeErrorOf = "relative error of ";
// |share of new readings inside the interval of 90 % - 0.9|
constexpr const char* kCoverageError = "error of 90 % coverage";

// "0.1", or "none" where an interval has no end.
std::string end_of(const json& end) {
  return end.is_number() ? fmt::format("{:.5g}", end.get<double>()) : "none";
}

void present_unknown(const std::string& name, const json& one,
                     Evaluation& evaluation) {
  const auto& interval = one.at("interval_95");
  const auto truth =
      one.contains("truth")
          ? fmt::format(", true {:.5g}", one.at("truth").get<double>())
          : "";
  evaluation.table.row(
      {fmt::format("{}, found", name),
       fmt::format("{:.5g} (95 %: {} to {}){}", one.at("value").get<double>(),
                   end_of(interval.at(0)), end_of(interval.at(1)), truth)});
  if (one.contains("relative_error")) {
    evaluation.metrics.push_back(
        {kRelativeErrorOf + name, one.at("relative_error")});
  }
  if (!one.value("determined", true)) {
    evaluation.remarks.push_back(fmt::format(
        "the readings do not determine {}: its interval leaves nearly all of "
        "its values open",
        name));
  } else if (one.value("at_bound", false)) {
    evaluation.remarks.push_back(fmt::format(
        "{} is at an end of its bounds: the true one may be outside", name));
  }
  if (one.at("settled").get<bool>()) return;
  evaluation.remarks.push_back(fmt::format(
      "the interval of {} may be wider: its search had not settled after {} "
      "iterations",
      name, one.at("iterations").get<int64_t>()));
}

}  // namespace

std::vector<std::string> Reconstruct::metric_names() const {
  auto names = Solve::metric_names();
  for (const auto& unknown : problem_->unknowns) {
    names.push_back(kRelativeErrorOf + unknown.name);
  }
  if (predicts_variance()) names.emplace_back(kCoverageError);
  return names;
}

json Reconstruct::fit_of(models::FieldNet& model, const Read& at) const {
  const torch::NoGradGuard no_grad;
  const auto misfit = misfit_of(model, at);
  const auto error = misfit.error.to(torch::kFloat64).cpu();
  const auto known = at.known.to(torch::kFloat64).cpu();
  json fit{{"readings", known.sum().item<int64_t>()},
           {"error", json::object()}};
  for (size_t k = 0; k < measured_.size(); ++k) {
    const auto column = static_cast<int64_t>(k);
    const auto count = known.select(1, column).sum();
    if (count.item<double>() == 0) continue;  // it was not read there
    fit["error"][problem_->symbols.fields[static_cast<size_t>(measured_[k])]] =
        (error.select(1, column).square().sum() / count).sqrt().item<double>();
  }
  if (!predicts_variance()) return fit;
  const auto deviations = deviations_of(misfit, at);
  for (const auto& [name, share] : kIntervals) {
    fit["coverage"][name] = coverage_of(deviations, share);
  }
  const auto curve = CoverageCurve::of(deviations);
  fit["calibration_error"] = curve.error();
  fit["coverage_curve"] = {{"predicted", curve.predicted},
                           {"observed", curve.observed}};
  return fit;
}

Tensor Reconstruct::deviations_of(models::FieldNet& model,
                                  const Read& at) const {
  const torch::NoGradGuard no_grad;
  return deviations_of(misfit_of(model, at), at);
}

Tensor Reconstruct::deviations_of(const Misfit& misfit, const Read& at) {
  const auto deviations =
      misfit.error.to(torch::kFloat64).abs() *
      (-0.5 * misfit.log_variance.to(torch::kFloat64)).exp();
  return deviations.masked_select(at.known > 0).cpu();
}

std::optional<Reconstruct::Read> Reconstruct::new_readings() {
  const auto* truth = reference_.find();
  if (truth == nullptr) return std::nullopt;
  auto readings = truth->fields;
  if (sensors_.noise.defined()) {
    readings = readings +
               sensors_.noise *
                   RandomStream(seed_, "sensors/new").normal(readings.sizes());
  }
  return on_device({reference_.points(), readings});
}

void Reconstruct::measure(models::FieldNet& model, json& numbers) {
  numbers["residual_mean_square"] =
      std::pow(numbers.at("residual").get<double>(), 2);
  numbers["sensors"] = {{"training", sensors_.training.count()},
                        {"held_out", sensors_.held_out.count()},
                        {"noise", sensor_options_.noise}};
  if (!problem_->unknowns.empty()) numbers["unknowns"] = unknowns_of(model);
  for (const auto& function : problem_->functions) {
    const auto& name =
        problem_->symbols.fields[static_cast<size_t>(function.field)];
    const auto& found = numbers["functions"][problem_->text(function)] =
        function_of(model, function);
    if (found.contains("relative_l2") && !numbers["fields"].contains(name)) {
      numbers["fields"][name] = found.at("relative_l2");
    }
  }
  numbers["training_fit"] = fit_of(model, training_);
  if (sensors_.held_out.count() > 0) {
    numbers["held_out_fit"] = fit_of(model, held_out_);
  }
  if (!predicts_variance()) return;
  if (const auto at = new_readings()) numbers["new_fit"] = fit_of(model, *at);
}

void Reconstruct::present_own(const json& numbers,
                              Evaluation& evaluation) const {
  for (const auto& [key, what] :
       {std::pair{"training_fit", "sensors that trained"},
        std::pair{"held_out_fit", "sensors held out"},
        std::pair{"new_fit", "new readings"}}) {
    if (!numbers.contains(key)) continue;
    const auto& fit = numbers.at(key);
    for (const auto& [field, error] : fit.at("error").items()) {
      evaluation.table.row(
          {fmt::format("{}, {}", field, what), scientific(error)});
    }
    const auto coverage = fit.value("coverage", json::object());
    for (const auto& [share, inside] : coverage.items()) {
      evaluation.table.row(
          {fmt::format("inside the {} % interval, {}", share, what),
           fmt::format("{:.1f} %", 100 * inside.get<double>())});
    }
    if (fit.contains("calibration_error")) {
      evaluation.table.row(
          {fmt::format("calibration error, {}", what),
           fmt::format("{:.1f} %",
                       100 * fit.at("calibration_error").get<double>())});
    }
  }
  if (numbers.contains("new_fit")) {
    const auto& inside = numbers.at("new_fit").at("coverage").at("90");
    evaluation.metrics.push_back(
        {kCoverageError, std::abs(inside.get<double>() - 0.9)});
  }
  const auto functions = numbers.value("functions", json::object());
  for (const auto& [name, one] : functions.items()) {
    const auto value = one.at("value").get<std::vector<double>>();
    const auto [least, most] = std::ranges::minmax(value);
    evaluation.table.row({fmt::format("{}, found", name),
                          fmt::format("{:.5g} to {:.5g}", least, most)});
  }
  const auto unknowns = numbers.value("unknowns", json::object());
  for (const auto& [name, one] : unknowns.items()) {
    present_unknown(name, one, evaluation);
  }
  const auto& sensors = numbers.at("sensors");
  evaluation.remarks.push_back(fmt::format(
      "{} sensors; their errors are root mean squares in units of the "
      "readings' standard deviation",
      sensors.at("training").get<int64_t>()));
  const auto& fields = problem_->symbols.fields;
  const auto freedom = freedoms();
  for (size_t f = 0; f < fields.size(); ++f) {
    if (freedom[f] == pde::Freedom::kNone) continue;
    evaluation.remarks.push_back(fmt::format(
        "{} is known up to {}: it is compared without its mean{}", fields[f],
        freedom[f] == pde::Freedom::kConstant ? "a constant"
                                              : "a function of time",
        freedom[f] == pde::Freedom::kConstant ? "" : " at each time"));
  }
}

}  // namespace propagator::tasks
