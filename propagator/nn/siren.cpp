#include "propagator/nn/siren.h"

#include <fmt/format.h>
#include <torch/utils.h>

#include <cmath>
#include <stdexcept>

#include "propagator/core/random.h"
#include "propagator/nn/wavelet_mlp.h"

namespace propagator::nn {
namespace {

using autodiff::Jet;

double hidden_bound(int64_t in, double w0) {
  return std::sqrt(6 / static_cast<double>(in)) / w0;
}

void draw(torch::nn::Linear& linear, double bound, int64_t seed,
          const std::string& path) {
  const torch::NoGradGuard no_grad;
  const auto uniform = [&](torch::Tensor& value, double limit,
                           const char* name) {
    const RandomStream stream(seed, fmt::format("init/{}.{}", path, name));
    value.copy_(
        stream.uniform(value.sizes(), -limit, limit, value.scalar_type()));
  };
  uniform(linear->weight, bound, "weight");
  uniform(linear->bias,
          1 / std::sqrt(static_cast<double>(linear->weight.size(1))), "bias");
}

}  // namespace

SirenLayerImpl::SirenLayerImpl(const SirenLayerOptions& options)
    : options_(options),
      linear_(register_module("linear",
                              torch::nn::Linear(options.in, options.out))) {}

Jet SirenLayerImpl::forward(const Jet& x) {
  // The frequency in the weights, of which there are fewer than of x.
  return autodiff::sin(autodiff::linear(x, linear_->weight * options_.w0,
                                        linear_->bias * options_.w0));
}

void SirenLayerImpl::add_to(kernels::JetMlp& net) const {
  net.weights.push_back(linear_->weight);
  net.biases.push_back(linear_->bias);
  net.scales.push_back(options_.w0);
}

Jet SirenLayerImpl::forward(const Jet& x, const Modulation& by) {
  return modulated_sine(apply_linear(linear_, x), by, options_.w0);
}

void SirenLayerImpl::initialise(int64_t seed, const std::string& path) {
  draw(linear_,
       options_.first ? 1 / static_cast<double>(options_.in)
                      : hidden_bound(options_.in, options_.w0),
       seed, path + ".linear");
}

SirenImpl::SirenImpl(const SirenOptions& options)
    : options_(options),
      out_(register_module("out",
                           torch::nn::Linear(options.width, options.outputs))) {
  for (int64_t n = 0; n < options.layers; ++n) {
    const bool first = n == 0;
    layers_.push_back(
        register_module(fmt::format("layer{}", n),
                        SirenLayer(SirenLayerOptions{
                            .in = first ? options.inputs : options.width,
                            .out = options.width,
                            .w0 = first ? options.first_w0 : options.hidden_w0,
                            .first = first})));
  }
}

Jet SirenImpl::forward(Jet x) {
  kernels::JetMlp net;
  net.activation = kernels::JetActivation::kSine;
  for (auto& layer : layers_) layer->add_to(net);
  net.weights.push_back(out_->weight);
  net.biases.push_back(out_->bias);
  net.scales.push_back(1);
  return autodiff::mlp(x, std::move(net));
}

Jet SirenImpl::forward(Jet x, const std::vector<Modulation>& by) {
  if (by.size() != layers_.size()) {
    throw std::invalid_argument(
        fmt::format("[siren] expected {} modulations, one for each layer, got "
                    "{}",
                    layers_.size(), by.size()));
  }
  for (size_t n = 0; n < by.size(); ++n) {
    x = layers_[n]->forward(x, by[n]);
  }
  return apply_linear(out_, x);
}

void SirenImpl::initialise(int64_t seed, const std::string& path) {
  for (size_t n = 0; n < layers_.size(); ++n) {
    layers_[n]->initialise(seed, fmt::format("{}.layer{}", path, n));
  }
  draw(out_, hidden_bound(options_.width, options_.hidden_w0), seed,
       path + ".out");
}

}  // namespace propagator::nn
