#include "propagator/train/loss_gradient.h"

#include <torch/utils.h>

#include "propagator/core/ranks.h"
#include "propagator/train/shared_rows.h"

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

struct PartOfAll {
  data::Split split;
  const torch::Tensor& positions;
  int64_t all;  // cases that the mean is over
};

// What a part gives to the mean loss and its terms; with `parameters` its part
// of the gradient is added to theirs.
torch::Tensor add_loss(Trainable& task, torch::nn::Module& model,
                       const PartOfAll& part, const Runtime& runtime,
                       FlatParameters* parameters,
                       std::vector<std::string>& names) {
  const double share = static_cast<double>(part.positions.size(0)) /
                       static_cast<double>(part.all);
  Loss loss;
  {
    const PrecisionScope scope(runtime);
    loss = task.loss(model, part.split, part.positions);
  }
  if (parameters != nullptr) parameters->add_gradient_of(loss.total, share);
  const torch::NoGradGuard no_grad;
  return values_of(loss, names) * share;
}

// Sums stay on the device: reading each part would make the host wait.
torch::Tensor sum_in_order(const std::vector<torch::Tensor>& values) {
  const torch::NoGradGuard no_grad;
  auto sum = values.front();
  for (size_t n = 1; n < values.size(); ++n) sum = sum + values[n];
  return sum;
}

}  // namespace

Parts parts_of(int64_t size, int64_t batch,
               const torch::TensorOptions& options) {
  const int64_t length = batch > 0 ? std::min(batch, size) : size;
  Parts parts;
  for (int64_t begin = 0; begin < size; begin += length) {
    parts.push_back(
        torch::arange(begin, std::min(begin + length, size), options));
  }
  return parts;
}

torch::Tensor mean_loss(Trainable& task, torch::nn::Module& model,
                        data::Split split, const Parts& parts,
                        const Runtime& runtime, std::vector<std::string>& names,
                        const std::function<void(int64_t)>& done) {
  const int64_t size = count_of(parts);
  const auto own = own_share(std::ssize(parts));
  std::vector<torch::Tensor> values;
  int64_t seen = 0;
  for (int64_t n = own.begin; n < own.end; ++n) {
    const auto& part = parts[static_cast<size_t>(n)];
    values.push_back(add_loss(task, model, {split, part, size}, runtime,
                              /*parameters=*/nullptr, names));
    seen += part.size(0);
    if (done) done(std::min(size, seen * ranks().size()));
  }
  return sum_in_order(gather_rows(values, std::ssize(parts)));
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
                           FlatParameters& parameters, const Parts& parts,
                           int64_t slices, const Runtime& runtime)
    : task_(task),
      model_(std::move(model)),
      parameters_(parameters),
      slices_(slices_of(parts, slices)),
      cases_(count_of(parts)),
      draws_(*model_, slices),
      runtime_(runtime) {
  if (slices == 1 && task.data_on_device() && DeviceGraph::possible(runtime)) {
    graph_ = std::make_unique<DeviceGraph>([this] { enqueue(); });
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

void LossGradient::forget_graph() {
  if (graph_) graph_->forget();
}

void LossGradient::enqueue() {
  const auto means = slices_.size() == 1 ? evaluate_slice(0) : sum_slices();
  // One place for every evaluation, so that a graph writes where we read.
  if (!values_.defined()) values_ = torch::empty_like(means);
  values_.copy_(means);
}

torch::Tensor LossGradient::evaluate_slice(int64_t slice) {
  parameters_.gradients().zero_();
  std::vector<torch::Tensor> values;
  for (const auto& part : slices_[static_cast<size_t>(slice)]) {
    values.push_back(add_loss(task_, *model_,
                              {data::Split::kTrain, part, cases_}, runtime_,
                              &parameters_, names_));
  }
  return sum_in_order(values);
}

torch::Tensor LossGradient::sum_slices() {
  const torch::NoGradGuard no_grad;
  draws_.begin_evaluation();
  const auto sum = tree_sum(std::ssize(slices_), [&](int64_t slice) -> Sum {
    const torch::AutoGradMode with_grad(true);
    task_.begin_slice(slice);
    draws_.begin_slice(slice);
    const auto values = evaluate_slice(slice);
    return {parameters_.gradients().clone(), values};
  });
  draws_.end_evaluation();
  parameters_.gradients().copy_(sum[0]);
  return sum[1];
}

}  // namespace propagator::train
