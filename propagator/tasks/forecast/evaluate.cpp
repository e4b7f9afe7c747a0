#include <torch/utils.h>

#include <limits>

#include "propagator/core/error.h"
#include "propagator/core/progress.h"
#include "propagator/core/stopwatch.h"
#include "propagator/tasks/forecast/baselines.h"
#include "propagator/tasks/forecast/forecast.h"

// The test of a forecast: what is measured.

namespace propagator::tasks {
namespace {

using models::as_forecaster;
using nlohmann::json;

// The heat-plate paper's weights, in which its block models are tested.
constexpr kernels::PlateLossWeights kPaperWeights{
    .mse = 1, .physics = 0.001, .boundary = 0.1, .initial = 0.1};

json mse_summary(const torch::Tensor& per_frame, int64_t visible) {
  const ShownFrames shown(visible, per_frame.size(0));
  const auto at = [&](int64_t t) { return per_frame[t].item<double>(); };
  return {{"mse_per_frame", report::numbers(per_frame)},
          {"mse", per_frame.mean().item<double>()},
          {"mse_hidden", per_frame.slice(0, visible).mean().item<double>()},
          {"mse_early", at(shown.early)},
          {"mse_middle", at(shown.middle)},
          {"mse_late", at(shown.late)}};
}

// One that answers: the model, a baseline, a classical method. Its errors, and
// the time that it takes on the device.
class Contender {
 public:
  template <class Work>
  torch::Tensor answer(const Runtime& runtime, const torch::Tensor& truth,
                       Work&& work) {
    wait_for(runtime);
    const Stopwatch clock;
    const torch::Tensor answer = work();
    wait_for(runtime);
    const double seconds = clock.seconds();
    seconds_ += seconds;
    fastest_ = std::min(fastest_, seconds / static_cast<double>(truth.size(0)));
    const auto squares = (answer - truth).to(torch::kFloat64).square();
    sum_ = sum_ + squares.mean({2, 3}).sum(0).cpu();
    cases_ += truth.size(0);
    return answer;
  }

  json numbers(int64_t visible) const {
    auto numbers = mse_summary(sum_ / cases_, visible);
    numbers["seconds_per_case"] = fastest_;
    return numbers;
  }
  double seconds() const { return seconds_; }

 private:
  torch::Tensor sum_ = torch::zeros({}, torch::kFloat64);  // (T), over cases
  int64_t cases_ = 0;
  double seconds_ = 0;
  // Of a case, in the batch that took least: others may have had to warm up.
  double fastest_ = std::numeric_limits<double>::infinity();
};

// What only plates of heat can be compared with.
struct HeatContest {
  Contender line, given, fitted;
  torch::Tensor terms = torch::zeros({4}, torch::kFloat64);  // over cases
  bool stable = true;  // whether explicit Euler can continue them

  void add(const physics::HeatPlateOptions& plate, const Runtime& runtime,
           const data::PlateBatch& batch, int64_t visible) {
    const auto& frames = batch.frames;
    line.answer(runtime, frames,
                [&] { return line_to_steady_state(plate, frames, visible); });
    const double step = (batch.alpha * batch.dt).max().item<double>();
    stable = stable && plate.is_stable(1, step);
    if (!stable) return;
    const auto continued = [&](const torch::Tensor& alpha) {
      return continue_scheme(plate, frames, alpha, batch.dt, visible);
    };
    given.answer(runtime, frames, [&] { return continued(batch.alpha); });
    if (visible < 2) return;
    fitted.answer(runtime, frames, [&] {
      return continued(
          physics::fit_alpha(plate, frames.narrow(1, 0, visible), batch.dt));
    });
  }

  void add_to(json& result, int64_t cases, int64_t visible) const {
    const auto& w = kPaperWeights;
    const auto term = [&](int64_t n) {
      return terms[n].item<double>() / static_cast<double>(cases);
    };
    result["total_loss"] = w.mse * term(0) + w.physics * term(1) +
                           w.boundary * term(2) + w.initial * term(3);
    result["total_loss_terms"] = {{"mse", term(0)},
                                  {"physics", term(1)},
                                  {"boundary", term(2)},
                                  {"initial", term(3)}};
    result["baselines"]["line to the steady state"] = line.numbers(visible);
    if (!stable) return;
    auto& classical = result["classical"];
    classical["explicit Euler, alpha given"] = given.numbers(visible);
    if (visible < 2) return;
    classical["explicit Euler, alpha fitted"] = fitted.numbers(visible);
  }
};

}  // namespace

torch::Tensor Forecast::forecast(
    models::Forecaster& model, const data::PlateBatch& batch,
    const std::function<void(int64_t)>& progress) const {
  const auto answer = [&] {
    if (eval_options_.protocol == Protocol::kPublished) {
      return model.autoregressive()
                 ? models::published_rollout(model, batch.frames, batch.alpha,
                                             eval_options_.stride, progress)
                 : model.forward(batch.frames, batch.alpha);
    }
    // Frames that are hidden are not given at all.
    const auto given = batch.frames.narrow(1, 0, model.visible());
    return model.autoregressive() ? model.predict(given, batch.alpha, progress)
                                  : model.forward(given, batch.alpha);
  }();
  return answer.to(batch.frames.dtype());
}

Evaluation Forecast::evaluate(torch::nn::Module& model, data::Split split) {
  if (split == data::Split::kAll && data_options_.file.empty()) {
    throw UsageError(
        "[forecast] the split all has the plates of training too",
        "it is for a file that the model has not seen: -s data.file=mine.h5");
  }
  const torch::NoGradGuard no_grad;
  auto& forecaster = as_forecaster(model);
  expect_alpha_if_used(forecaster);
  model.eval();
  const int64_t visible = forecaster.visible();
  const int64_t cases = eval_options_.cases > 0
                            ? std::min(eval_options_.cases, data_->size(split))
                            : data_->size(split);
  Contender ours, kept;
  HeatContest heat;
  Progress progress("testing", cases * plate_.frames);
  for (int64_t n = 0; n < cases; n += eval_options_.batch) {
    const int64_t count = std::min(eval_options_.batch, cases - n);
    const auto batch = data_->range(split, n, count);
    const auto answer = ours.answer(runtime_, batch.frames, [&] {
      return forecast(forecaster, batch, [&](int64_t frame) {
        progress.update(n * plate_.frames + frame * count);
      });
    });
    kept.answer(runtime_, batch.frames,
                [&] { return keep_last_frame(batch.frames, visible); });
    if (data_->is_heat()) {
      heat.add(plate_, runtime_, batch, visible);
      const auto loss = kernels::plate_loss(
          loss_inputs(answer, batch, PhysicsUnits::kRate, visible),
          kPaperWeights);
      heat.terms += loss.terms.to(torch::kCPU, torch::kFloat64) * count;
    }
    progress.update((n + count) * plate_.frames);
  }
  json result = ours.numbers(visible);
  if (!std::isfinite(result.at("mse").get<double>())) {
    throw NumericalError("[eval] the forecast is not finite");
  }
  result["baselines"]["last frame kept"] = kept.numbers(visible);
  if (data_->is_heat()) heat.add_to(result, cases, visible);
  const ShownFrames shown(visible, plate_.frames);
  if (forecaster.predicts_variance()) {
    result["spread"] = measure_coverage(forecaster, split);
  }
  result["split"] = config::name_of(split);
  result["cases"] = cases;
  result["protocol"] = config::name_of(eval_options_.protocol);
  result["visible_frames"] = visible;
  result["shown_frames"] = {shown.early, shown.middle, shown.late};
  result["evaluation_seconds"] = ours.seconds();
  return present(std::move(result));
}

}  // namespace propagator::tasks
