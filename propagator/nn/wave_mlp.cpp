#include "propagator/nn/wave_mlp.h"

#include <fmt/format.h>

namespace propagator::nn {

using autodiff::Jet;

WavesImpl::WavesImpl()
    : w1_(register_parameter("w1", torch::ones({1}))),
      w2_(register_parameter("w2", torch::ones({1}))) {}

Jet WavesImpl::forward(const Jet& x) { return autodiff::waves(x, w1_, w2_); }

Jet apply_linear(torch::nn::Linear& layer, const Jet& x) {
  return autodiff::linear(x, layer->weight, layer->bias);
}

WaveMlpImpl::WaveMlpImpl(const std::vector<int64_t>& widths) {
  for (size_t i = 0; i + 1 < widths.size(); ++i) {
    linears_.push_back(
        register_module(fmt::format("linear{}", i),
                        torch::nn::Linear(widths[i], widths[i + 1])));
    if (i + 2 < widths.size()) {
      waves_.push_back(register_module(fmt::format("waves{}", i), Waves()));
    }
  }
}

Jet WaveMlpImpl::forward(Jet x) {
  for (size_t i = 0; i < linears_.size(); ++i) {
    x = apply_linear(linears_[i], x);
    if (i < waves_.size()) x = waves_[i]->forward(x);
  }
  return x;
}

}  // namespace propagator::nn
