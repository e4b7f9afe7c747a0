#include <torch/utils.h>

#include <cmath>

#include "propagator/core/error.h"
#include "propagator/core/progress.h"
#include "propagator/core/stopwatch.h"
#include "propagator/tasks/forecast/fields/field_baselines.h"
#include "propagator/tasks/forecast/fields/field_errors.h"
#include "propagator/tasks/forecast/fields/field_forecast.h"
#include "propagator/tasks/forecast/fields/field_sums.h"

// The test of a forecast of fields: what is measured.

namespace propagator::tasks {
namespace {

using data::Split;
using models::as_field_forecaster;
using nlohmann::json;

std::vector<int64_t> numbers_of(const data::FieldLayout& layout,
                                const std::vector<std::string>& channels) {
  std::vector<int64_t> numbers;
  for (const auto& name : channels) {
    numbers.push_back(std::ranges::find(layout.channels, name) -
                      layout.channels.begin());
  }
  return numbers;
}

// Sums that are conserved, in forecasts and in the truth.
struct SumTest {
  std::vector<std::string> channels;
  SumDrift ours, truth;

  SumTest(const data::FieldLayout& layout, std::vector<std::string> names)
      : channels(std::move(names)),
        ours(numbers_of(layout, channels)),
        truth(ours) {}

  void add(const torch::Tensor& last, const torch::Tensor& right,
           const torch::Tensor& answer) {
    if (channels.empty()) return;
    ours.add(last, answer);
    truth.add(last, right);
  }
  void add_to(json& result) const {
    if (channels.empty()) return;
    result["conserved"] = {{"channels", channels},
                           {"drift", ours.numbers(channels)},
                           {"true_drift", truth.numbers(channels)}};
  }
};

}  // namespace

int64_t FieldForecast::steps(Split split) const {
  const int64_t room = data(split).frames() - data_options_.given;
  return eval_options_.steps > 0 ? std::min(eval_options_.steps, room) : room;
}

Evaluation FieldForecast::evaluate(torch::nn::Module& model, Split split) {
  const torch::NoGradGuard no_grad;
  auto& forecaster = as_field_forecaster(model);
  model.eval();
  const int64_t given = data_options_.given, steps = this->steps(split);
  const int64_t all = data(split).cases(split);
  const int64_t cases =
      eval_options_.cases > 0 ? std::min(eval_options_.cases, all) : all;
  const MeanField mean(*data_);
  const LinearField linear(*data_, given);
  FieldErrors ours, one_step;
  std::map<std::string, FieldErrors> others;
  SumTest sums(layout_, conserved(split));
  double seconds = 0, fastest = std::numeric_limits<double>::infinity();
  Progress progress("testing", cases * steps);
  for (int64_t n = 0; n < cases; n += eval_options_.batch) {
    const int64_t count = std::min(eval_options_.batch, cases - n);
    const auto batch = data(split).range(split, n, count);
    const auto first = batch.frames.narrow(1, 0, given);
    const auto truth = batch.frames.narrow(1, given, steps);
    wait_for(runtime_);
    const Stopwatch clock;
    const auto answer = forecast(forecaster, batch, steps, [&](int64_t frame) {
      progress.update(n * steps + frame * count);
    });
    wait_for(runtime_);
    seconds += clock.seconds();
    fastest = std::min(fastest, clock.seconds() / static_cast<double>(count));
    ours.add(truth, answer);
    sums.add(first.select(1, given - 1), truth, answer);
    one_step.add(
        truth, forecaster.one_step(batch.frames.narrow(1, 0, given + steps - 1),
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
  sums.add_to(result);
  result["split"] = config::name_of(split);
  result["cases"] = cases;
  result["given_frames"] = given;
  result["forecast_frames"] = steps;
  result["seconds_per_case"] = fastest;
  result["evaluation_seconds"] = seconds;
  if (eval_options_.classical) add_classical(result, split);
  return present(std::move(result));
}

}  // namespace propagator::tasks
