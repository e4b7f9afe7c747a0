#include "propagator/train/quasi_newton_step.h"

#include <torch/utils.h>

namespace propagator::train {

QuasiNewtonStep::QuasiNewtonStep(Trainable& task,
                                 std::shared_ptr<torch::nn::Module> model,
                                 FlatParameters& parameters,
                                 const LbfgsOptions& options, int64_t batch,
                                 const Runtime& runtime)
    : precision_(runtime.precision),
      parameters_(parameters),
      optimizer_(options, parameters),
      gradient_(task, std::move(model), parameters,
                parts_of(task.size(data::Split::kTrain), batch,
                         LossGradient::position_options(task, runtime)),
                runtime) {}

void QuasiNewtonStep::run() {
  outcome_ = optimizer_.step([this] { return evaluate(); });
  // The search may have tried a point beyond the one it chose.
  if (gradient_.values()[0].item<double>() != outcome_.loss) evaluate();
  accepted_ = gradient_.values().cpu();
  parameters_.refresh();
}

StepRecord QuasiNewtonStep::read() const {
  return {read_values(accepted_, gradient_.names()), outcome_.gradient_norm};
}

}  // namespace propagator::train
