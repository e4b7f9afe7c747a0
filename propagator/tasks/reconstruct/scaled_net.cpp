#include "propagator/tasks/reconstruct/scaled_net.h"

#include <torch/utils.h>

namespace propagator::tasks {

ScaledNet::ScaledNet(std::shared_ptr<models::FieldNet> network, int64_t outputs,
                     const std::vector<pde::Unknown>& unknowns)
    : network_(register_module("network", std::move(network))),
      shift_(register_parameter("shift", torch::zeros({outputs}), false)),
      scale_(register_parameter("scale", torch::ones({outputs}), false)) {
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
  return network_->forward(points) * scale_ + shift_;
}

void ScaledNet::set(const torch::Tensor& shift, const torch::Tensor& scale) {
  const torch::NoGradGuard no_grad;
  shift_.copy_(shift);
  scale_.copy_(scale);
}

}  // namespace propagator::tasks
