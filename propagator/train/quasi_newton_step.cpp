#include "propagator/train/quasi_newton_step.h"

#include <torch/utils.h>

namespace propagator::train {

QuasiNewtonStep::QuasiNewtonStep(Task& task,
                                 std::shared_ptr<torch::nn::Module> model,
                                 FlatParameters& parameters,
                                 const LbfgsOptions& options, int64_t batch,
                                 const Runtime& runtime)
    : task_(task),
      model_(std::move(model)),
      parameters_(parameters),
      runtime_(runtime),
      optimizer_(options, parameters) {
  const int64_t size = task.size(data::Split::kTrain);
  const int64_t length = batch > 0 ? std::min(batch, size) : size;
  const auto where = task.data_on_device() ? runtime.device : torch::kCPU;
  for (int64_t begin = 0; begin < size; begin += length) {
    parts_.push_back(
        torch::arange(begin, std::min(begin + length, size),
                      torch::TensorOptions(torch::kInt64).device(where)));
  }
  if (task.data_on_device() && StepGraph::possible(runtime)) {
    graph_ = std::make_unique<StepGraph>([this] { enqueue(); });
  }
}

void QuasiNewtonStep::enqueue() {
  parameters_.gradients().zero_();
  const auto size = static_cast<double>(task_.size(data::Split::kTrain));
  torch::Tensor sums;
  for (const auto& positions : parts_) {
    const double share = static_cast<double>(positions.size(0)) / size;
    Loss loss;
    {
      const PrecisionScope scope(runtime_);
      loss = task_.loss(*model_, data::Split::kTrain, positions);
    }
    parameters_.add_gradient_of(loss.total, share);
    const auto values = values_of(loss, names_);
    const auto part = share < 1 ? values * share : values;
    sums = sums.defined() ? sums + part : part;
  }
  // One place for every evaluation, so that a graph writes where we read.
  if (!values_.defined()) values_ = torch::empty_like(sums);
  values_.copy_(sums);
}

torch::Tensor QuasiNewtonStep::evaluate() {
  if (graph_) {
    graph_->run();
  } else {
    enqueue();
  }
  return values_[0];
}

void QuasiNewtonStep::run() {
  outcome_ = optimizer_.step([this] { return evaluate(); });
  // The search may have looked at a point beyond the one it chose.
  if (values_[0].item<double>() != outcome_.loss) evaluate();
  accepted_ = values_.cpu();
}

Step::Record QuasiNewtonStep::read() const {
  return Step::Record::of(accepted_, names_, outcome_.gradient_norm);
}

}  // namespace propagator::train
