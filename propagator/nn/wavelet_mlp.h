#pragma once

#include <torch/nn/modules/linear.h>

#include "propagator/autodiff/jet.h"

namespace propagator::nn {

// y = w₁ sin x + w₂ cos x with two trained numbers, on jets; both begin as 1.
class WaveletImpl : public torch::nn::Module {
 public:
  WaveletImpl();
  autodiff::Jet forward(const autodiff::Jet& x);
  // The layer of the waves, in half the memory.
  autodiff::Jet forward_into(torch::nn::Linear& layer, const autodiff::Jet& x);

 private:
  torch::Tensor w1_, w2_;  // (1)
};
TORCH_MODULE(Wavelet);

// x Wᵀ + b on jets.
autodiff::Jet apply_linear(torch::nn::Linear& layer, const autodiff::Jet& x);

// Linear layers from widths.front() to widths.back(), with waves between them:
// the feed-forward blocks and the heads of PINNsFormer and its kin.
class WaveletMlpImpl : public torch::nn::Module {
 public:
  explicit WaveletMlpImpl(const std::vector<int64_t>& widths);
  autodiff::Jet forward(autodiff::Jet x);

 private:
  std::vector<torch::nn::Linear> linears_;
  std::vector<Wavelet> waves_;
};
TORCH_MODULE(WaveletMlp);

}  // namespace propagator::nn
