#pragma once

#include "propagator/nn/attention_bias.h"

namespace propagator::nn {

// The parameters of one encoder layer (encoder.h), width C, hidden width F.
struct LayerWeights {
  torch::Tensor norm1, norm1_bias;  // (C)
  torch::Tensor qkv;                // (3 C, C)
  torch::Tensor output;             // (C, C)
  torch::Tensor norm2, norm2_bias;  // (C)
  torch::Tensor up, up_bias;        // (F, C), (F)
  torch::Tensor down, down_bias;    // (C, F), (C)
};

// Where the gradient of a parameter is kept; zeros are made if there is none.
// Undefined for a frozen parameter, one that requires no gradient: whoever adds
// gradients in place leaves out the work for it.
torch::Tensor gradient_of(const torch::Tensor& parameter);

// The layer with its backward written out, for training on a GPU, where each
// of the few hundred small operators that autograd would make costs as much as
// a product: residuals, biases and ReLU ride on the products, and gradients of
// weights are added where the parameters keep them, beside the chain that
// leads to dx. Frozen weights get none and cost none. x (B, T, C) → (B, T, C),
// float32 or float64. Any device; the gradients of the parameters themselves
// are not returned to autograd. The bias is a visible prefix or causal.
torch::Tensor fused_layer(const torch::Tensor& x, const LayerWeights& weights,
                          int64_t heads, const AttentionBias& bias, double eps);

// A layer norm and y = x Wᵀ + b in the same manner: (…, I) → (…, O).
torch::Tensor fused_norm(const torch::Tensor& x, const torch::Tensor& weight,
                         const torch::Tensor& bias, double eps);
torch::Tensor fused_linear(const torch::Tensor& x, const torch::Tensor& weight,
                           const torch::Tensor& bias);

// Whether fused operators are the way to go for x: on CUDA, not under autocast.
bool fusing_pays(const torch::Tensor& x);

}  // namespace propagator::nn
