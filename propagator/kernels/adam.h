#pragma once

#include <torch/types.h>

namespace propagator::kernels {

// The constants of one Adam update.
struct AdamStep {
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;  // decoupled (AdamW); 0 gives Adam
  double correction1 = 1;   // 1 - beta1^step, or 1 without bias correction
  double correction2 = 1;   // 1 - beta2^step
  double grad_scale = 1;    // clipping and accumulation, folded in
};

// One update of the flat buffers, in place and in one pass over memory:
//   g = grad_scale · grad
//   m = beta1 m + (1 - beta1) g
//   v = beta2 v + (1 - beta2) g²
//   w = w - lr (m / correction1) / (sqrt(v / correction2) + eps)
//         - lr weight_decay w
// All tensors are contiguous, of one shape and one floating type.
void adam(torch::Tensor w, const torch::Tensor& grad, torch::Tensor m,
          torch::Tensor v, const AdamStep& step);

// What is done to a gradient before it is used: multiplied by `share`, and then
// cut down to the length `clip` if it is longer (0: never).
struct GradientScale {
  double share = 1;
  double clip = 0;
};

// The same where a step must not wait for the host: `varying` (3) holds lr,
// correction1 and correction2 in float64 on the device; those of `step` and its
// grad_scale are not read. Returns the length of share · grad, a scalar in
// float64. On CUDA two passes, the norm and the update; in tensor operations
// elsewhere.
torch::Tensor adam_on_device(torch::Tensor w, const torch::Tensor& grad,
                             torch::Tensor m, torch::Tensor v,
                             const AdamStep& step, const torch::Tensor& varying,
                             const GradientScale& scale);

// Length and factor for a gradient, scalars in float64, in tensor operations.
struct ScaledGradient {
  torch::Tensor norm, factor;
};
ScaledGradient scale_gradient(const torch::Tensor& grad,
                              const GradientScale& scale);

// The same in plain tensor operations: the meaning.
void adam_reference(torch::Tensor w, const torch::Tensor& grad, torch::Tensor m,
                    torch::Tensor v, const AdamStep& step);

}  // namespace propagator::kernels
