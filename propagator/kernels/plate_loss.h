#pragma once

#include <torch/types.h>

namespace propagator::kernels {

// What the terms of the plate's loss are measured with. With the residual as a
// rate (the heat-plate paper's form) `rate` = 1/dt and `kx` = α/dx²; in units
// of one step both are multiplied by dt.
struct PlateLossInputs {
  torch::Tensor prediction;  // (B, T, R, C)
  torch::Tensor truth;       // (B, T, R, C)
  torch::Tensor rate;        // (B)
  torch::Tensor kx;          // (B)
  torch::Tensor ky;          // (B)
  int64_t visible = 5;       // frames of the initial term
};

struct PlateLossWeights {
  double mse = 1;
  double physics = 0.001;
  double boundary = 0.1;
  double initial = 0.1;
};

struct PlateLoss {
  torch::Tensor total;  // scalar, differentiable in `prediction`
  torch::Tensor terms;  // (4): mse, physics, boundary, initial; no gradient
};

// With e = prediction - truth and the five-point Laplacian of the prediction,
//   mse      = mean e²
//   physics  = mean over n < T-1 and interior nodes of
//              (rate (p[n+1] - p[n]) - kx δxx p[n] - ky δyy p[n])²
//   boundary = mean e² on the left + right + top + bottom edge
//   initial  = mean e² over the first `visible` frames
//   total    = Σ weight · term.
// One pass over the field gives the terms and the gradient, on the CPU and on
// CUDA (there up to hundreds of columns); else the reference does. Sums are
// split the same way for any number of threads, so the bits do not depend on
// it.
PlateLoss plate_loss(const PlateLossInputs& in,
                     const PlateLossWeights& weights);

// The same in plain tensor operations. With `normalised` the physics term is
// divided by the variance of its residual, as equations 23 to 25 of the
// document say; it is then close to 1 whatever the prediction.
PlateLoss plate_loss_reference(const PlateLossInputs& in,
                               const PlateLossWeights& weights,
                               bool normalised = false);

}  // namespace propagator::kernels
