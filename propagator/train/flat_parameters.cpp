#include "propagator/train/flat_parameters.h"

#include <torch/utils.h>

namespace propagator::train {

FlatParameters::FlatParameters(torch::nn::Module& module) {
  const torch::NoGradGuard no_grad;
  std::vector<std::pair<std::string, torch::Tensor>> parameters;
  for (const auto& item : module.named_parameters()) {
    if (item.value().requires_grad()) parameters.emplace_back(item.pair());
  }
  int64_t size = 0;
  for (const auto& [name, value] : parameters) {
    segments_.push_back({name, size, value.numel()});
    size += value.numel();
  }
  values_ = torch::empty({size}, parameters.front().second.options())
                .set_requires_grad(false);
  gradients_ = torch::zeros_like(values_);
  for (size_t i = 0; i < segments_.size(); ++i) {
    auto& parameter = parameters[i].second;
    const auto& [name, offset, count] = segments_[i];
    const auto shape = parameter.sizes().vec();
    const auto view = values_.narrow(0, offset, count).view(shape);
    view.copy_(parameter);
    parameter.set_data(view);
    parameter.mutable_grad() = gradients_.narrow(0, offset, count).view(shape);
  }
}

}  // namespace propagator::train
