#include "propagator/train/step.h"

#include <torch/utils.h>

namespace propagator::train {

torch::Tensor values_of(const Loss& loss, std::vector<std::string>& names) {
  std::vector<torch::Tensor> values{loss.total.detach()};
  names.clear();
  for (const auto& term : loss.terms) {
    names.push_back(term.name);
    values.push_back(term.value);
  }
  return torch::stack(values).to(torch::kFloat64);
}

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
  const auto norm = optimizer_.apply(
      {1.0 / static_cast<double>(options_.accumulate), options_.clip});
  const auto row = torch::cat({values_of(loss, names_), norm.view({1})});
  // One place for every step, so that a graph writes where we read.
  if (!record_.defined()) record_ = torch::empty_like(row);
  record_.copy_(row);
}

Step::Record Step::Record::of(const torch::Tensor& values,
                              const std::vector<std::string>& names,
                              double norm) {
  const double* value = values.data_ptr<double>();
  Record record{value[0], {}, norm};
  for (size_t n = 0; n < names.size(); ++n) {
    record.terms.emplace_back(names[n], value[n + 1]);
  }
  return record;
}

Step::Record Step::read() const {
  const auto values = record_.cpu();
  return Record::of(values, names_, values[-1].item<double>());
}

}  // namespace propagator::train
