#include "propagator/train/loss_gradient.h"

#include <torch/utils.h>

namespace propagator::train {
namespace {

torch::Tensor values_of(const Loss& loss, std::vector<std::string>& names) {
  std::vector<torch::Tensor> values{loss.total.detach()};
  names.clear();
  for (const auto& term : loss.terms) {
    names.push_back(term.name);
    values.push_back(term.value);
  }
  return torch::stack(values).to(torch::kFloat64);
}

}  // namespace

std::vector<torch::Tensor> parts_of(int64_t size, int64_t batch,
                                    const torch::TensorOptions& options) {
  const int64_t length = batch > 0 ? std::min(batch, size) : size;
  std::vector<torch::Tensor> parts;
  for (int64_t begin = 0; begin < size; begin += length) {
    parts.push_back(
        torch::arange(begin, std::min(begin + length, size), options));
  }
  return parts;
}

torch::Tensor mean_loss(Trainable& task, torch::nn::Module& model,
                        data::Split split,
                        const std::vector<torch::Tensor>& parts,
                        const Runtime& runtime, FlatParameters* parameters,
                        std::vector<std::string>& names,
                        const std::function<void(int64_t)>& done) {
  int64_t size = 0, seen = 0;
  for (const auto& part : parts) size += part.size(0);
  // Sums stay on the device: reading each part would make the host wait.
  torch::Tensor sums;
  for (const auto& part : parts) {
    const double share =
        static_cast<double>(part.size(0)) / static_cast<double>(size);
    Loss loss;
    {
      const PrecisionScope scope(runtime);
      loss = task.loss(model, split, part);
    }
    if (parameters != nullptr) parameters->add_gradient_of(loss.total, share);
    const torch::NoGradGuard no_grad;
    const auto values = values_of(loss, names) * share;
    sums = sums.defined() ? sums + values : values;
    seen += part.size(0);
    if (done) done(seen);
  }
  return sums;
}

LossValues read_values(const torch::Tensor& values,
                       const std::vector<std::string>& names) {
  const auto here = values.cpu();
  const double* value = here.data_ptr<double>();
  LossValues read{value[0], {}};
  for (size_t n = 0; n < names.size(); ++n) {
    read.terms.emplace_back(names[n], value[n + 1]);
  }
  return read;
}

LossGradient::LossGradient(Trainable& task,
                           std::shared_ptr<torch::nn::Module> model,
                           FlatParameters& parameters,
                           std::vector<torch::Tensor> parts,
                           const Runtime& runtime)
    : task_(task),
      model_(std::move(model)),
      parameters_(parameters),
      parts_(std::move(parts)),
      runtime_(runtime) {
  if (task.data_on_device() && StepGraph::possible(runtime)) {
    graph_ = std::make_unique<StepGraph>([this] { enqueue(); });
  }
}

torch::TensorOptions LossGradient::position_options(const Trainable& task,
                                                    const Runtime& runtime) {
  return torch::TensorOptions(torch::kInt64)
      .device(task.data_on_device() ? runtime.device : torch::kCPU);
}

torch::Tensor LossGradient::evaluate() {
  if (graph_) {
    graph_->run();
  } else {
    enqueue();
  }
  return values_[0];
}

void LossGradient::enqueue() {
  parameters_.gradients().zero_();
  const auto means = mean_loss(task_, *model_, data::Split::kTrain, parts_,
                               runtime_, &parameters_, names_);
  // One place for every evaluation, so that a graph writes where we read.
  if (!values_.defined()) values_ = torch::empty_like(means);
  values_.copy_(means);
}

}  // namespace propagator::train
