#include "propagator/train/step.h"

#include <torch/utils.h>

namespace propagator::train {
namespace {

// What is learned beside the model's own parameters.
NamedTensors beside_model(const Trainable& task, const Tuning* tuning) {
  auto all = task.learned();
  if (tuning != nullptr) all.merge(tuning->low_rank().factors());
  return all;
}

}  // namespace

Step::Step(Trainable& task, std::shared_ptr<torch::nn::Module> model,
           const StepOptions& options, const Runtime& runtime, Tuning* tuning)
    : options_(options),
      parameters_(*model, beside_model(task, tuning),
                  Optimizer::order_for(options.optimizer.kind),
                  tuning != nullptr ? &tuning->low_rank() : nullptr),
      optimizer_(options.optimizer, parameters_),
      positions_(torch::zeros({options.accumulate, options.batch},
                              LossGradient::position_options(task, runtime))),
      gradient_(task, std::move(model), parameters_, positions_.unbind(),
                options.slices, runtime) {
  if (gradient_.is_graph()) {
    update_graph_ = std::make_unique<DeviceGraph>([this] { update(); });
  }
}

void Step::run(std::span<const int64_t> positions, double lr) {
  positions_.copy_(
      torch::tensor(at::IntArrayRef(positions.data(), positions.size()),
                    torch::kInt64)
          .view({options_.accumulate, options_.batch}));
  optimizer_.begin_step(lr);
  gradient_.evaluate();
  if (update_graph_) {
    update_graph_->run();
  } else {
    update();
  }
}

void Step::update() {
  const torch::NoGradGuard no_grad;
  const auto norm = optimizer_.apply({.share = 1, .clip = options_.clip});
  if (!norm_.defined()) norm_ = torch::empty_like(norm);
  norm_.copy_(norm);
  parameters_.refresh();
}

StepRecord Step::read() const {
  return {read_values(gradient_.values(), gradient_.names()),
          norm_.item<double>()};
}

}  // namespace propagator::train
