#include <torch/utils.h>

#include "propagator/core/log.h"
#include "propagator/models/space_time.h"
#include "propagator/nn/spectral_conv.h"
#include "propagator/tasks/forecast/fields/field_forecast.h"
#include "propagator/tasks/forecast/fields/known_step.h"

// What explanations of a forecast of fields work on.

namespace propagator::tasks {
namespace {

using data::Split;
using torch::Tensor;

// Of the leak audit: one for noise and one for NaN. Each is forecast four
// times.
constexpr int64_t kAuditedCases = 2;
// Pairs of training cases whose differences span what the data vary in.
constexpr int64_t kMostDifferences = 16;
// Frames that are further from the equation are not of it.
constexpr double kMostTruthError = 0.01;

// Of a step and its gradient, at most: two operations of a weight at each node,
// three times. Weights of frequencies are used once, those of patches once a
// patch; those of coarser grids are counted as if they were of the finest.
double work_of_step(torch::nn::Module& model, double nodes, double frames) {
  double everywhere = 0, once = 0;
  for (const auto& parameter : model.parameters()) {
    everywhere += static_cast<double>(parameter.numel());
  }
  for (const auto& module : model.modules()) {
    if (module->as<nn::SpectralConvImpl>() != nullptr) {
      for (const auto& parameter : module->parameters()) {
        once += static_cast<double>(parameter.numel());
      }
    }
    if (const auto* net = dynamic_cast<models::SpaceTime*>(module.get())) {
      nodes /= std::pow(net->patch(), net->shape().axes());
    }
  }
  return 6 * frames * ((everywhere - once) * nodes + once);
}

}  // namespace

std::optional<AuditSubject> FieldForecast::audit_subject(
    torch::nn::Module& model) {
  auto& forecaster = models::as_field_forecaster(model);
  model.eval();
  const auto& tested = data(Split::kTest);
  const auto batch =
      tested.windows_at(Split::kTest,
                        torch::arange(kAuditedCases, torch::kInt64)
                            .remainder(tested.cases(Split::kTest)),
                        tested.frames());
  const int64_t given = data_options_.given;
  const bool block = this->block() > 0;
  const int64_t seen =
      block ? given + steps(Split::kTest) - 1 : batch.frames.size(1);
  const std::shared_ptr<Surrogate> predicting =
      surrogate(model.shared_from_this(), runtime_, steps(Split::kTest));
  return AuditSubject{
      .inputs = batch.frames,
      .visible = given,
      .paths = {{"test",
                 [this, batch, &forecaster](const Tensor& frames) {
                   return test_path(
                       forecaster, {frames, batch.parameters, batch.constants});
                 }},
                {"predict",
                 [predicting,
                  inputs = named(batch)](const Tensor& frames) mutable {
                   inputs["fields"] = frames;
                   // What else it gives is what it was given.
                   return NamedTensors{
                       {"fields", predicting->apply(inputs).at("fields")}};
                 }}},
      .forward =
          [&forecaster, told = told(batch), seen](const Tensor& frames) {
            return forecaster.forward(frames.narrow(1, 0, seen),
                                      told.first(frames.size(0)));
          },
      .first_hidden =
          [given, block](int64_t output) {
            return block ? given : output + given;
          }};
}

NamedTensors FieldForecast::test_path(models::FieldForecaster& model,
                                      const data::FieldBatch& cases) const {
  const torch::NoGradGuard no_grad;
  const PrecisionScope scope(runtime_);
  std::vector<Tensor> answers;
  for (int64_t n = 0; n < cases.frames.size(0); n += eval_options_.batch) {
    const auto part = [&](const Tensor& all) {
      return all.defined() ? all.slice(0, n, n + eval_options_.batch) : all;
    };
    answers.push_back(forecast(
        model,
        {part(cases.frames), part(cases.parameters), part(cases.constants)},
        steps(Split::kTest), {}));
  }
  return {{"fields", torch::cat(answers)}};
}

NamedTensors FieldForecast::named(const data::FieldBatch& cases) const {
  NamedTensors all{{"fields", cases.frames}};
  const auto add = [&](const std::vector<std::string>& names,
                       const Tensor& values) {
    for (size_t n = 0; n < names.size(); ++n) {
      all[names[n]] = values.select(-1, static_cast<int64_t>(n));
    }
  };
  const auto known = told(cases);
  add(data_options_.told(), known.numbers);
  add(data_options_.constants(), known.constants);
  return all;
}

std::optional<StepSubject> FieldForecast::step_subject(
    torch::nn::Module& model) {
  auto& forecaster = models::as_field_forecaster(model);
  model.eval();
  const int64_t given = data_options_.given;
  const auto batch = data(Split::kTest).range(Split::kTest, 0, 1);
  const int64_t pairs =
      std::min(kMostDifferences, data_->cases(Split::kTrain) / 2);
  const auto first =
      data_->range(Split::kTrain, 0, 2 * pairs).frames.select(1, 0);
  StepSubject subject{
      .step =
          [&forecaster, known = told(batch)](const Tensor& windows) {
            return forecaster.forward(windows, known.repeated(windows.size(0)))
                .select(1, 0);
          },
      .repeated = block() == 0,
      .window = batch.frames[0].narrow(0, 0, given),
      .ensemble = first.narrow(0, 0, pairs) - first.narrow(0, pairs, pairs),
      .channels = layout_.channels};
  for (size_t d = 0; d < layout_.axes.size(); ++d) {
    subject.axes.push_back(axis(d));
  }
  const auto nodes = static_cast<double>(first[0].numel()) /
                     static_cast<double>(layout_.channels.size());
  subject.work = work_of_step(model, nodes, static_cast<double>(given));
  const data::FieldSource source(data_options_.file, data_options_.choices);
  if (const auto known =
          known_step(source.note(), layout_, batch.parameters[0].cpu())) {
    subject.truth_error = step_error(*known, batch.frames[0]);
    if (subject.truth_error <= kMostTruthError) {
      subject.truth = known->map;
      subject.law = known->law;
    } else {
      log::warn(
          "the true step is left out: frames differ by {:.2g} from {}, which "
          "the file's note says they are of",
          subject.truth_error, known->law);
    }
  }
  return subject;
}

}  // namespace propagator::tasks
