#include "propagator/train/least_squares_step.h"

#include <torch/utils.h>

namespace propagator::train {

LeastSquaresStep::LeastSquaresStep(Trainable& task,
                                   std::shared_ptr<torch::nn::Module> model,
                                   FlatParameters& parameters,
                                   const LevenbergMarquardtOptions& options,
                                   int64_t batch, const Runtime& runtime)
    : task_(task),
      model_(std::move(model)),
      parameters_(parameters),
      batch_(batch),
      runtime_(runtime),
      method_(options, parameters) {
  residuals(true);  // before anything is written
}

LeastSquares LeastSquaresStep::residuals(bool with_jacobian) {
  parameters_.refresh();
  const PrecisionScope scope(runtime_);
  return task_.least_squares(*model_,
                             with_jacobian ? &parameters_.values() : nullptr);
}

void LeastSquaresStep::run() {
  outcome_ = method_.step(
      [this](bool with_jacobian) { return residuals(with_jacobian); });
  parameters_.refresh();
  const torch::NoGradGuard no_grad;
  std::vector<std::string> names;
  const auto means =
      mean_loss(task_, *model_, data::Split::kTrain,
                parts_of(task_.size(data::Split::kTrain), batch_,
                         LossGradient::position_options(task_, runtime_)),
                runtime_, names);
  loss_ = read_values(means, names);
}

}  // namespace propagator::train
