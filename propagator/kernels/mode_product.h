#pragma once

#include <torch/types.h>

namespace propagator::kernels {

// Products of complex matrices that are many and small, as of each frequency of
// a spectral convolution: y_k = x_k R_k, with real and imaginary parts last:
// x (K, B, in, 2), R (K, in, out, 2) → (K, B, out, 2). On the CPU each is
// multiplied as real matrices [a b] of twice the size, in registers, where a
// product library would spend its time on calls. Differentiable once there.
torch::Tensor mode_product(const torch::Tensor& x, const torch::Tensor& weight);

// The same in plain operations: the meaning.
torch::Tensor mode_product_reference(const torch::Tensor& x,
                                     const torch::Tensor& weight);

}  // namespace propagator::kernels
