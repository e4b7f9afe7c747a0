#pragma once

#include <torch/types.h>

namespace propagator::kernels {

// The same matrix along the middle axis of each of many blocks, y_b = M x_b:
// M (m, n), which is fixed, and x (B, n, inner) → (B, m, inner). Whatever
// stands behind an axis is `inner`, so that no axis has to be moved to the end
// and back. On the CPU each block is multiplied as it lies. Differentiable in
// x, once there.
torch::Tensor axis_product(const torch::Tensor& matrix, const torch::Tensor& x);

// The same in plain operations: the meaning.
torch::Tensor axis_product_reference(const torch::Tensor& matrix,
                                     const torch::Tensor& x);

}  // namespace propagator::kernels
