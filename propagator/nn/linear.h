#pragma once

#include <torch/nn/modules/linear.h>

namespace propagator::nn {

// The layer applied to (…, inputs) → (…, outputs). Without gradients and with
// a few rows, as in a rollout, by the kernel for few rows.
torch::Tensor apply_linear(torch::nn::Linear& layer, const torch::Tensor& x);

}  // namespace propagator::nn
