#include "propagator/train/flat_parameters.h"

#include <torch/utils.h>

namespace propagator::train {

FlatParameters::FlatParameters(torch::nn::Module& module) {
  const torch::NoGradGuard no_grad;
  auto parameters = module.named_parameters();
  int64_t size = 0;
  for (const auto& item : parameters) {
    segments_.push_back({item.key(), size, item.value().numel()});
    size += item.value().numel();
  }
  values_ = torch::empty({size}, parameters.front().value().options())
                .set_requires_grad(false);
  gradients_ = torch::zeros_like(values_);
  for (size_t i = 0; i < segments_.size(); ++i) {
    auto& parameter = parameters[i].value();
    const auto& [name, offset, count] = segments_[i];
    const auto shape = parameter.sizes().vec();
    const auto view = values_.narrow(0, offset, count).view(shape);
    view.copy_(parameter);
    parameter.set_data(view);
    parameter.mutable_grad() = gradients_.narrow(0, offset, count).view(shape);
  }
}

}  // namespace propagator::train
