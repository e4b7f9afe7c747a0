#include "propagator/nn/wavelet_mlp.h"

#include <fmt/format.h>

namespace propagator::nn {

using autodiff::Jet;

WaveletImpl::WaveletImpl()
    : w1_(register_parameter("w1", torch::ones({1}))),
      w2_(register_parameter("w2", torch::ones({1}))) {}

Jet WaveletImpl::forward(const Jet& x) { return autodiff::waves(x, w1_, w2_); }

Jet WaveletImpl::forward_into(torch::nn::Linear& layer, const Jet& x) {
  return autodiff::linear_of_waves(x, w1_, w2_, layer->weight, layer->bias);
}

Jet apply_linear(torch::nn::Linear& layer, const Jet& x) {
  return autodiff::linear(x, layer->weight, layer->bias);
}

WaveletMlpImpl::WaveletMlpImpl(const std::vector<int64_t>& widths) {
  for (size_t i = 0; i + 1 < widths.size(); ++i) {
    linears_.push_back(
        register_module(fmt::format("linear{}", i),
                        torch::nn::Linear(widths[i], widths[i + 1])));
    if (i + 2 < widths.size()) {
      waves_.push_back(register_module(fmt::format("waves{}", i), Wavelet()));
    }
  }
}

Jet WaveletMlpImpl::forward(Jet x) {
  x = apply_linear(linears_.front(), x);
  for (size_t i = 0; i < waves_.size(); ++i) {
    x = waves_[i]->forward_into(linears_[i + 1], x);
  }
  return x;
}

}  // namespace propagator::nn
