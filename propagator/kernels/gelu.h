#pragma once

#include <torch/types.h>

namespace propagator::kernels {

// x Φ(x) of each number, Φ being the normal distribution. On the CPU its slope
// is taken in the same pass, if somebody wants gradients: both need the same
// bell, and a backward pass is then one product. Differentiable once there.
torch::Tensor gelu(const torch::Tensor& x);

}  // namespace propagator::kernels
