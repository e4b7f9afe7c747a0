#pragma once

#include <torch/nn/modules/linear.h>

#include "propagator/autodiff/jet.h"

namespace propagator::nn {

struct GaborLayerOptions {
  int64_t in = 1, out = 1;
  double w0 = 30;      // frequency of the wave
  double scale = 10;   // s0: the envelope's width is 1/s0
  bool first = false;  // its inputs are coordinates, and its weights real
};

// Gabor wavelets of a complex linear map, as in WIRE:
//   h = exp(i w0 z - |s0 z|²),   z = W x + b,   W = A + i B, b = a + i c.
// Complex features stand as [real parts, imaginary parts]: with z = p + i q
//   h = exp(-w0 q - s0² (p² + q²)) [cos w0 p, sin w0 p].
// Jets (M; …, 2 in), of a first layer (M; …, in), → (M; …, 2 out). |h| is at
// most exp(w0² / 4 s0²).
class GaborLayerImpl : public torch::nn::Module {
 public:
  explicit GaborLayerImpl(const GaborLayerOptions& options);
  autodiff::Jet forward(const autodiff::Jet& x);

 private:
  GaborLayerOptions options_;
  torch::nn::Linear real_;                 // A, a
  torch::nn::Linear imaginary_ = nullptr;  // B, c
};
TORCH_MODULE(GaborLayer);

}  // namespace propagator::nn
