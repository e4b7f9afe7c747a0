#pragma once

#include <torch/types.h>

#include "propagator/kernels/beside.h"

namespace propagator::kernels {

// Σ_n a[n, :], (C), the gradient of a bias; and the same added to `out`.
torch::Tensor column_sums(const torch::Tensor& a);
void add_column_sums(torch::Tensor out, const torch::Tensor& a);

// The backward pass of y = relu(x + bias), in place of dy, with the gradient of
// the bias, beside: dy ← dy where y > 0, else 0; dbias += Σ_n dy[n, :]. An
// undefined dbias is not wanted.
void relu_backward(torch::Tensor dy, const torch::Tensor& y,
                   torch::Tensor dbias, Beside& beside);

}  // namespace propagator::kernels
