#pragma once

#include <torch/types.h>

#include "propagator/kernels/beside.h"

namespace propagator::kernels {

// What a layer norm leaves for its backward.
struct LayerNormed {
  torch::Tensor y;           // (N, C)
  torch::Tensor mean, rstd;  // (N), or (N, 1) on the CPU
};

// y = (x - mean) rstd · weight + bias over the last of x's dimensions, with
// rstd = 1/√(variance + eps): x (N, C), weight and bias (C).
LayerNormed layer_norm(const torch::Tensor& x, const torch::Tensor& weight,
                       const torch::Tensor& bias, double eps);

// Its gradient, plus the one that comes along the residual stream:
//   dx = residual + (∂y/∂x)ᵀ dy   (an undefined residual is none),
// while those of weight and bias are added to `dweight` and `dbias`, beside; an
// undefined one is not wanted.
torch::Tensor layer_norm_backward(
    const torch::Tensor& dy, const torch::Tensor& x, const LayerNormed& forward,
    const torch::Tensor& weight, const torch::Tensor& residual,
    torch::Tensor dweight, torch::Tensor dbias, Beside& beside);

}  // namespace propagator::kernels
