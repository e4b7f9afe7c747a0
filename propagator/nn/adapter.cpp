#include "propagator/nn/adapter.h"

#include <torch/types.h>
#include <torch/utils.h>

#include <cmath>

#include "propagator/core/random.h"
#include "propagator/nn/linear.h"
#include "propagator/nn/wavelet_mlp.h"

namespace propagator::nn {
namespace {

constexpr double kEps = 1e-5;

}  // namespace

AdapterImpl::AdapterImpl(int64_t width, int64_t bottleneck)
    : down_(register_module("down", torch::nn::Linear(width, bottleneck))),
      up_(register_module("up", torch::nn::Linear(bottleneck, width))) {}

torch::Tensor AdapterImpl::forward(const torch::Tensor& x) {
  const auto normed = torch::layer_norm(x, {x.size(-1)}, {}, {}, kEps);
  return x + apply_linear(up_, torch::tanh(apply_linear(down_, normed)));
}

autodiff::Jet AdapterImpl::forward(const autodiff::Jet& x) {
  const auto normed = autodiff::layer_norm(x, {}, {}, kEps);
  return x + apply_linear(up_, autodiff::tanh(apply_linear(down_, normed)));
}

void AdapterImpl::reset(int64_t seed, const std::string& path) {
  const torch::NoGradGuard no_grad;
  auto& weight = down_->weight;
  const double bound = 1 / std::sqrt(static_cast<double>(weight.size(1)));
  weight.copy_(
      RandomStream(seed, "init/" + path + ".down.weight")
          .uniform(weight.sizes(), -bound, bound, weight.scalar_type()));
  down_->bias.zero_();
  up_->weight.zero_();
  up_->bias.zero_();
}

}  // namespace propagator::nn
