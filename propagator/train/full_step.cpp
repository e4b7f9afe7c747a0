#include "propagator/train/full_step.h"

#include "propagator/train/least_squares_step.h"
#include "propagator/train/quasi_newton_step.h"

namespace propagator::train {

std::unique_ptr<FullStep> make_full_step(
    Trainable& task, std::shared_ptr<torch::nn::Module> model,
    FlatParameters& parameters, const TrainOptions& options, int64_t batch,
    const Runtime& runtime) {
  // A captured graph refers to it: it stays where it is made.
  const auto gradient = [&] {
    return std::make_unique<LossGradient>(
        task, model, parameters,
        parts_of(task.size(data::Split::kTrain), batch,
                 LossGradient::position_options(task, runtime)),
        options.slices, runtime);
  };
  switch (options.optimizer.kind) {
    case OptimizerKind::kLbfgs:
      return std::make_unique<QuasiNewtonStep<Lbfgs>>(options.lbfgs, parameters,
                                                      gradient(), runtime);
    case OptimizerKind::kBroyden:
      return std::make_unique<QuasiNewtonStep<Broyden>>(
          options.broyden, parameters, gradient(), runtime);
    case OptimizerKind::kLevenbergMarquardt:
      return std::make_unique<LeastSquaresStep>(
          task, model, parameters, options.levenberg_marquardt, batch, runtime);
    default:
      return nullptr;
  }
}

}  // namespace propagator::train
