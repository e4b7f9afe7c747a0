#pragma once

#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>

namespace propagator::nn {

torch::nn::Linear linear_without_bias(int64_t inputs, int64_t outputs);

// The layer applied to (…, inputs) → (…, outputs): fused on CUDA; on the CPU,
// without gradients and with a few rows, as in a rollout, by the kernel for few
// rows.
torch::Tensor apply_linear(torch::nn::Linear& layer, const torch::Tensor& x);

// The norm applied over the last dimension, fused on CUDA.
torch::Tensor apply_norm(torch::nn::LayerNorm& norm, const torch::Tensor& x);

}  // namespace propagator::nn
