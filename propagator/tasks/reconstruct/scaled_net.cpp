#include "propagator/tasks/reconstruct/scaled_net.h"

#include <torch/utils.h>

namespace propagator::tasks {

ScaledNet::ScaledNet(std::shared_ptr<models::FieldNet> network,
                     std::shared_ptr<SpreadNet> spreads, int64_t outputs,
                     const std::vector<pde::Unknown>& unknowns)
    : network_(register_module("network", std::move(network))),
      shift_(register_parameter("shift", torch::zeros({outputs}), false)),
      scale_(register_parameter("scale", torch::ones({outputs}), false)) {
  if (spreads) spreads_ = register_module("spreads", std::move(spreads));
  if (unknowns.empty()) return;
  std::vector<double> starts;
  for (const auto& unknown : unknowns) starts.push_back(unknown.start);
  starts_ = register_buffer("starts", torch::tensor(starts, torch::kFloat64));
  sought_ = register_parameter("sought", torch::zeros({std::ssize(starts)}));
}

torch::Tensor ScaledNet::unknowns() const {
  if (!sought_.defined()) return {};
  const auto starts = starts_.to(sought_.dtype());
  return torch::where(starts == 0, sought_, starts * sought_.exp());
}

autodiff::Jet ScaledNet::forward(const autodiff::Jet& points) {
  auto answers = network_->forward(points);
  if (spreads_) {
    answers = autodiff::cat({answers, spreads_->forward(points)}, -1);
  }
  return answers * scale_ + shift_;
}

void ScaledNet::initialise(int64_t seed) {
  network_->initialise(seed);
  if (spreads_) spreads_->initialise(seed);
}

void ScaledNet::set(const torch::Tensor& shift, const torch::Tensor& scale) {
  const torch::NoGradGuard no_grad;
  shift_.copy_(shift);
  scale_.copy_(scale);
}

}  // namespace propagator::tasks
