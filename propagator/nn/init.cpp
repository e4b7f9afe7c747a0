#include "propagator/nn/init.h"

#include <torch/types.h>
#include <torch/utils.h>

#include <cmath>

#include "propagator/core/random.h"

namespace propagator::nn {

void initialise(torch::nn::Module& module, int64_t seed) {
  const torch::NoGradGuard no_grad;
  auto parameters = module.named_parameters();
  for (auto& item : parameters) {
    auto& value = item.value();
    if (!value.requires_grad()) continue;
    const auto& name = item.key();
    const std::string owner = name.substr(0, name.rfind('.'));
    const auto* weight = parameters.find(owner + ".weight");
    const bool of_norm = weight != nullptr && weight->dim() == 1;
    if (of_norm) {
      value.fill_(name.ends_with(".weight") ? 1.0 : 0.0);
      continue;
    }
    // A bias shares the fan-in of its weight; a lone vector has its length.
    const int64_t fan_in = weight != nullptr ? weight->size(1) : value.size(-1);
    const double bound = 1 / std::sqrt(static_cast<double>(fan_in));
    const RandomStream stream(seed, "init/" + name);
    value.copy_(
        stream.uniform(value.sizes(), -bound, bound, value.scalar_type()));
  }
}

int64_t parameter_count(const torch::nn::Module& module) {
  int64_t count = 0;
  for (const auto& parameter : module.parameters()) {
    if (parameter.requires_grad()) count += parameter.numel();
  }
  return count;
}

}  // namespace propagator::nn
