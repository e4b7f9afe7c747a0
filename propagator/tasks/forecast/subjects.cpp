#include <algorithm>
#include <cmath>
#include <set>

#include "propagator/core/log.h"
#include "propagator/tasks/forecast/forecast.h"

// What explanations of a forecast work on.

namespace propagator::tasks {
namespace {

using models::as_forecaster;

// Cases of the leak audit: enough for noise and NaN, few beside a test. Each is
// forecast four times.
int64_t audited_cases(int64_t tested) {
  return std::clamp<int64_t>(tested / 100, 2, 4);
}

// Pairs of training cases whose differences span what the data vary in.
constexpr int64_t kMostPairs = 16;

// Frames from the first hidden to the last, closer together where they begin,
// with those that are shown.
std::vector<int64_t> spread_times(int64_t visible, int64_t frames) {
  constexpr int kCount = 7;
  const ShownFrames shown(visible, frames);
  std::set<int64_t> times{shown.early, shown.middle, shown.late};
  const double ratio =
      static_cast<double>(frames - 1) / static_cast<double>(visible);
  for (int n = 0; n < kCount; ++n) {
    const double share = static_cast<double>(n) / (kCount - 1);
    times.insert(
        std::llround(static_cast<double>(visible) * std::pow(ratio, share)));
  }
  return {times.begin(), times.end()};
}

// Why there is none to set beside the learned one; empty if there is.
std::string no_true_propagator(const physics::HeatPlateOptions& plate,
                               const data::PlateDataset& data,
                               const data::PlateBatch& test) {
  if (!data.is_heat()) return "the true one of the file's field is not known";
  if (plate.is_stable(test.alpha.item<double>(), test.dt.item<double>())) {
    return "";
  }
  return "the file's time step is too long for our own solver";
}

}  // namespace

std::optional<AuditSubject> Forecast::audit_subject(torch::nn::Module& model) {
  auto& forecaster = as_forecaster(model);
  model.eval();
  const int64_t tested = data_->size(data::Split::kTest);
  const auto batch = data_->batch(
      data::Split::kTest,
      torch::arange(audited_cases(tested), torch::kInt64).remainder(tested));
  AuditSubject subject{
      .inputs = batch.frames,
      .visible = forecaster.visible(),
      .paths =
          {{"test",
            [this, batch, &forecaster](const torch::Tensor& frames) {
              return test_path(forecaster, {frames, batch.alpha, batch.dt});
            }}},
      .forward =
          [&forecaster, alpha = batch.alpha](const torch::Tensor& frames) {
            return forecaster.forward(frames,
                                      alpha.slice(0, 0, frames.size(0)));
          },
      .first_hidden =
          [&forecaster](int64_t output) {
            return forecaster.first_hidden(output);
          }};
  if (model_options_->honest()) {
    const std::shared_ptr<Surrogate> predicting =
        surrogate(model.shared_from_this(), runtime_);
    subject.paths.push_back(
        {"predict", [predicting, batch](const torch::Tensor& frames) {
           return predicting->apply(
               {{"fields", frames}, {"alpha", batch.alpha}});
         }});
  }
  return subject;
}

NamedTensors Forecast::test_path(models::Forecaster& model,
                                 const data::PlateBatch& cases) const {
  const PrecisionScope scope(runtime_);
  std::vector<torch::Tensor> answers;
  for (int64_t n = 0; n < cases.frames.size(0); n += eval_options_.batch) {
    const auto part = [&](const torch::Tensor& all) {
      return all.slice(0, n, n + eval_options_.batch);
    };
    answers.push_back(forecast(
        model, {part(cases.frames), part(cases.alpha), part(cases.dt)}, {}));
  }
  return {{"fields", torch::cat(answers)}};
}

std::optional<PropagatorSubject> Forecast::propagator_subject(
    torch::nn::Module& model) {
  auto& forecaster = as_forecaster(model);
  const auto times = spread_times(forecaster.visible(), plate_.frames);
  const auto test = data_->range(data::Split::kTest, 0, 1);
  if (const auto why = no_true_propagator(plate_, *data_, test); !why.empty()) {
    log::warn("the learned propagator is left out: {}", why);
    return std::nullopt;
  }
  const int64_t pairs =
      std::min(kMostPairs, data_->size(data::Split::kTrain) / 2);
  const auto train = data_->range(data::Split::kTrain, 0, 2 * pairs);
  const auto first = train.frames.select(1, 0);

  // The first `frames` frames of plates that begin with these states.
  const auto solve = [plate = plate_, test](const torch::Tensor& states,
                                            int64_t frames) {
    auto options = plate;
    options.frames = frames;
    const int64_t count = states.size(0);
    const auto each = [&](const torch::Tensor& one) {
      return one.to(states.dtype()).expand({count}).contiguous();
    };
    return physics::solve(options, {states, each(test.alpha), each(test.dt)});
  };
  const auto choose = [times](const torch::Tensor& frames) {
    return frames.index_select(
        1, torch::tensor(times, torch::kInt64).to(frames.device()));
  };
  const bool honest = model_options_->honest();
  return PropagatorSubject{
      .model =
          [=, &forecaster,
           frames = plate_.frames](const torch::Tensor& states) {
            const auto alpha = test.alpha.expand({states.size(0)});
            // A published model is given every frame of the truth.
            if (!honest) {
              return choose(forecaster.forward(solve(states, frames), alpha));
            }
            return forecaster.predict_at(solve(states, forecaster.visible()),
                                         alpha, times);
          },
      .truth =
          [=, frames = plate_.frames](const torch::Tensor& states) {
            return choose(solve(states, frames));
          },
      .given =
          [=, visible = forecaster.visible()](const torch::Tensor& states) {
            return solve(states, visible).slice(1, visible - 1);
          },
      .times = times,
      .state = test.frames[0][0],
      .ensemble = first.slice(0, 0, pairs) - first.slice(0, pairs),
      .work = forecaster.work_of(times),
      .x = x_axis(),
      .y = y_axis(),
      .quantity = "response"};
}

}  // namespace propagator::tasks
