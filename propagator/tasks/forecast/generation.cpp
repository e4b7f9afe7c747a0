#include <torch/utils.h>

#include "propagator/core/error.h"
#include "propagator/core/progress.h"
#include "propagator/data/named_table.h"
#include "propagator/models/forecast_ensemble.h"
#include "propagator/tasks/forecast/forecast.h"

// Whole trajectories, drawn.

namespace propagator::tasks {
namespace {

using models::as_forecaster;
using models::Forecaster;
using torch::Tensor;

void expect_variance(const Forecaster& model) {
  if (model.predicts_variance()) return;
  throw UsageError(
      "[generate] this run predicts no variance, and there is nothing to draw",
      "train one with loss.frames=heteroscedastic; `propagator predict` gives "
      "the one forecast of this run");
}

}  // namespace

NamedTensors Forecast::given_cases(int64_t count) const {
  const int64_t available = data_->size(data::Split::kTest);
  if (count > available) {
    throw UsageError(fmt::format("[generate] the test has {} cases, not {}",
                                 available, count));
  }
  const auto batch = data_->range(data::Split::kTest, 0, count);
  return {{"fields", batch.frames}, {"alpha", batch.alpha}};
}

std::map<std::string, std::vector<int64_t>> Forecast::trajectory_shapes(
    torch::nn::Module& model, const NamedTensors& given, int64_t count) const {
  const auto& forecaster = as_forecaster(model);
  expect_variance(forecaster);
  const auto& fields = data::tensor_named(given, "fields");
  expect_first_frames(fields, shape(), forecaster.visible());
  data::check_finite(fields.narrow(1, 0, forecaster.visible()), 0, "fields");
  const int64_t cases = fields.size(0);
  std::map<std::string, std::vector<int64_t>> shapes{
      {"fields", {cases, count, plate_.frames, plate_.rows, plate_.cols}},
      {"mean", {cases, plate_.frames, plate_.rows, plate_.cols}}};
  if (!forecaster.autoregressive()) shapes["deviation"] = shapes["mean"];
  if (forecaster.uses_alpha()) {
    expect_alpha(data::tensor_named(given, "alpha"), cases);
    shapes["alpha"] = {cases};
  }
  return shapes;
}

void Forecast::continue_cases(torch::nn::Module& model,
                              const NamedTensors& given, int64_t count,
                              const RandomStream& stream,
                              const Runtime& runtime, const TakeRows& take) {
  const torch::NoGradGuard no_grad;
  const PrecisionScope scope(runtime);
  auto& forecaster = as_forecaster(model);
  model.eval();
  const auto spread = spread_of(forecaster);
  const auto& fields = given.at("fields");
  const int64_t cases = fields.size(0);
  const bool uses_alpha = forecaster.uses_alpha();
  const auto alpha = uses_alpha ? given.at("alpha").to(runtime.options())
                                : torch::zeros({cases}, runtime.options());
  const int64_t each = count * plate_.frames;
  Progress progress("drawing", cases * each);
  for (int64_t n = 0; n < cases; ++n) {
    const auto first = fields.narrow(0, n, 1)
                           .narrow(1, 0, forecaster.visible())
                           .to(runtime.options());
    const auto own = alpha.narrow(0, n, 1);
    const auto drawn = draw_trajectories(
        forecaster, spread, first, own,
        {.draws = count,
         .batch = eval_options_.batch,
         .stream = stream,
         .first_case = n},
        [&](int64_t done) { progress.update(n * each + done); });
    if (!torch::isfinite(drawn).all().item<bool>()) {
      throw NumericalError(
          fmt::format("[generate] a trajectory of case {} is not finite", n),
          "are the values like those the model was trained on?");
    }
    take("fields", n, drawn.cpu());
    take("mean", n, forecaster.predict(first, own).cpu());
    if (!forecaster.autoregressive()) {
      const auto said =
          predictive(forecaster, spread.members, first, own, draw_options(n));
      take("deviation", n,
           (said.deviation *
            spread.scale.to(said.deviation.options()).view({1, -1, 1, 1}))
               .cpu());
    }
    if (uses_alpha) take("alpha", n, own.cpu());
  }
}

std::shared_ptr<torch::nn::Module> Forecast::combine(
    const std::vector<std::shared_ptr<torch::nn::Module>>& members) const {
  std::vector<std::shared_ptr<Forecaster>> forecasters;
  for (const auto& member : members) {
    forecasters.push_back(std::dynamic_pointer_cast<Forecaster>(member));
  }
  return std::make_shared<models::ForecastEnsemble>(std::move(forecasters));
}

}  // namespace propagator::tasks
