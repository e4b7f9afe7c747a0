#include "propagator/train/step.h"

#include <torch/utils.h>

namespace propagator::train {

Step::Step(Task& task, std::shared_ptr<torch::nn::Module> model,
           const StepOptions& options, const Runtime& runtime)
    : task_(task),
      model_(std::move(model)),
      options_(options),
      runtime_(runtime),
      parameters_(*model_),
      optimizer_(options.optimizer, parameters_),
      positions_(torch::zeros(
          {options.accumulate, options.batch},
          torch::TensorOptions(torch::kInt64)
              .device(task.data_on_device() ? runtime.device : torch::kCPU))) {
  if (task.data_on_device() && StepGraph::possible(runtime)) {
    graph_ = std::make_unique<StepGraph>([this] { enqueue(); });
  }
}

void Step::run(std::span<const int64_t> positions, double lr) {
  positions_.copy_(
      torch::tensor(at::IntArrayRef(positions.data(), positions.size()),
                    torch::kInt64)
          .view({options_.accumulate, options_.batch}));
  optimizer_.begin_step(lr);
  if (graph_) {
    graph_->run();
  } else {
    enqueue();
  }
}

void Step::enqueue() {
  parameters_.gradients().zero_();
  Loss loss;
  for (int64_t part = 0; part < options_.accumulate; ++part) {
    {
      const PrecisionScope scope(runtime_);
      loss = task_.loss(*model_, data::Split::kTrain, positions_[part]);
    }
    loss.total.backward();
  }
  const torch::NoGradGuard no_grad;
  const double share = 1.0 / static_cast<double>(options_.accumulate);
  const auto norm = parameters_.gradients().norm().to(torch::kFloat64) * share;
  const auto scale = options_.clip > 0
                         ? share * (options_.clip / norm).clamp_max(1)
                         : torch::full_like(norm, share);
  optimizer_.apply(scale);

  std::vector<torch::Tensor> measured{loss.total.detach().to(torch::kFloat64)};
  names_.clear();
  for (const auto& term : loss.terms) {
    names_.push_back(term.name);
    measured.push_back(term.value.to(torch::kFloat64));
  }
  measured.push_back(norm);
  const auto row = torch::stack(measured);
  // One place for every step, so that a graph writes where we read.
  if (!record_.defined()) record_ = torch::empty_like(row);
  record_.copy_(row);
}

Step::Record Step::read() const {
  const auto values = record_.cpu();
  const double* value = values.data_ptr<double>();
  Record record{value[0], {}, value[names_.size() + 1]};
  for (size_t n = 0; n < names_.size(); ++n) {
    record.terms.emplace_back(names_[n], value[n + 1]);
  }
  return record;
}

}  // namespace propagator::train
