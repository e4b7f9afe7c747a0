#pragma once

#include <torch/nn/modules/linear.h>
#include <torch/nn/pimpl.h>

#include <string>

#include "propagator/autodiff/jet.h"

namespace propagator::nn {

// What a layer calls its adapter.
inline constexpr const char* kAdapterName = "adapter";

// A bottleneck behind a layer, for fine-tuning: (…, C) → (…, C),
//   x + U tanh(D LN(x) + d) + u,
// where LN has no weights. U and u are zero at first, so that a model with
// adapters begins as it was without. Smooth, so that PDEs can be solved
// through it: the same on jets.
class AdapterImpl : public torch::nn::Module {
 public:
  AdapterImpl(int64_t width, int64_t bottleneck);

  torch::Tensor forward(const torch::Tensor& x);
  autodiff::Jet forward(const autodiff::Jet& x);
  void reset(int64_t seed, const std::string& path);

 private:
  torch::nn::Linear down_, up_;
};
TORCH_MODULE(Adapter);

}  // namespace propagator::nn
