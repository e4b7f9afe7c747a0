#include "propagator/tasks/reconstruct/scaled_net.h"

#include <torch/utils.h>

namespace propagator::tasks {

ScaledNet::ScaledNet(std::shared_ptr<models::FieldNet> network, int64_t outputs)
    : network_(register_module("network", std::move(network))),
      shift_(register_parameter("shift", torch::zeros({outputs}), false)),
      scale_(register_parameter("scale", torch::ones({outputs}), false)) {}

autodiff::Jet ScaledNet::forward(const autodiff::Jet& points) {
  return network_->forward(points) * scale_ + shift_;
}

void ScaledNet::set(const torch::Tensor& shift, const torch::Tensor& scale) {
  const torch::NoGradGuard no_grad;
  shift_.copy_(shift);
  scale_.copy_(scale);
}

}  // namespace propagator::tasks
