#include "propagator/autodiff/field_net.h"

#include <torch/types.h>
#include <torch/utils.h>

#include <cmath>

#include "propagator/core/random.h"

namespace propagator::autodiff {
namespace {

constexpr double kBias = 0.01;

double xavier_bound(const torch::Tensor& matrix) {
  return std::sqrt(6.0 / static_cast<double>(matrix.size(0) + matrix.size(1)));
}

double fan_in_bound(const torch::Tensor& kernel) {
  return 1 / std::sqrt(static_cast<double>(kernel[0].numel()));
}

}  // namespace

void FieldNet::initialise(int64_t seed) {
  const torch::NoGradGuard no_grad;
  auto parameters = named_parameters();
  for (auto& item : parameters) {
    auto& value = item.value();
    if (!value.requires_grad()) continue;
    const auto& path = item.key();
    const auto dot = path.rfind('.') + 1;  // 0 without one
    const std::string owner = path.substr(0, dot), name = path.substr(dot);
    if (value.dim() >= 2) {
      const double bound =
          value.dim() == 2 ? xavier_bound(value) : fan_in_bound(value);
      value.copy_(
          RandomStream(seed, "init/" + path)
              .uniform(value.sizes(), -bound, bound, value.scalar_type()));
    } else if (name == "bias") {
      const auto* weight = parameters.find(owner + "weight");
      const bool of_norm = weight != nullptr && weight->dim() == 1;
      value.fill_(of_norm ? 0.0 : kBias);
    } else if (name == "weight" || value.numel() == 1) {
      value.fill_(1.0);  // of a norm, or of a wave
    }
    // Any other vector is what its network made it.
  }
}

}  // namespace propagator::autodiff
