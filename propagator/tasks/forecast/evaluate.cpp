#include <torch/utils.h>

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

// Sums of squared errors of each frame, over cases and nodes: (T).
torch::Tensor squared_error(const torch::Tensor& answer,
                            const torch::Tensor& truth) {
  return (answer - truth).to(torch::kFloat64).square().sum({0, 2, 3}).cpu();
}

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

// The terms' means over cases, and their sum with the paper's weights.
void add_total_loss(const torch::Tensor& terms, json& result) {
  const auto& w = kPaperWeights;
  const auto term = [&](int64_t n) { return terms[n].item<double>(); };
  result["total_loss"] = w.mse * term(0) + w.physics * term(1) +
                         w.boundary * term(2) + w.initial * term(3);
  result["total_loss_terms"] = {{"mse", term(0)},
                                {"physics", term(1)},
                                {"boundary", term(2)},
                                {"initial", term(3)}};
}

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
  model.eval();
  const int64_t visible = forecaster.visible();
  const int64_t cases = eval_options_.cases > 0
                            ? std::min(eval_options_.cases, data_->size(split))
                            : data_->size(split);
  auto ours = torch::zeros({plate_.frames}, torch::kFloat64);
  auto kept = torch::zeros_like(ours), line = torch::zeros_like(ours);
  auto terms = torch::zeros({4}, torch::kFloat64);
  double seconds = 0;
  Progress progress("testing", cases * plate_.frames);
  for (int64_t n = 0; n < cases; n += eval_options_.batch) {
    const int64_t count = std::min(eval_options_.batch, cases - n);
    const auto batch = data_->range(split, n, count);
    const Stopwatch clock;
    const auto answer = forecast(forecaster, batch, [&](int64_t frame) {
      progress.update(n * plate_.frames + frame * count);
    });
    ours += squared_error(answer, batch.frames);
    seconds += clock.seconds();
    const auto loss = kernels::plate_loss(
        loss_inputs(answer, batch, PhysicsUnits::kRate, visible),
        kPaperWeights);
    terms += loss.terms.to(torch::kCPU, torch::kFloat64) * count;
    kept += squared_error(keep_last_frame(batch.frames, visible), batch.frames);
    line += squared_error(line_to_steady_state(plate_, batch.frames, visible),
                          batch.frames);
    progress.update((n + count) * plate_.frames);
  }
  const auto count = static_cast<double>(cases * plate_.rows * plate_.cols);
  json result = mse_summary(ours / count, visible);
  if (!std::isfinite(result.at("mse").get<double>())) {
    throw NumericalError("[eval] the forecast is not finite");
  }
  add_total_loss(terms / cases, result);
  result["baselines"] = {
      {"last frame kept", mse_summary(kept / count, visible)},
      {"line to the steady state", mse_summary(line / count, visible)}};
  const ShownFrames shown(visible, plate_.frames);
  result["split"] = config::name_of(split);
  result["cases"] = cases;
  result["protocol"] = config::name_of(eval_options_.protocol);
  result["visible_frames"] = visible;
  result["shown_frames"] = {shown.early, shown.middle, shown.late};
  result["evaluation_seconds"] = seconds;
  return present(std::move(result));
}

}  // namespace propagator::tasks
