#pragma once

#include <torch/types.h>

#include "propagator/kernels/jet/jet_orders.h"

namespace propagator::kernels {

// y = sin(w0 ω ⊙ (γ ⊙ x + β)) through a jet of order 2 at most, x (M, …, F) and
// film (M, …, 3F), which is [γ, β, ω], → (M, …, F), in one pass over the rows,
// forward and backward. Differentiable once.
torch::Tensor jet_film(const torch::Tensor& x, const torch::Tensor& film,
                       double w0, const JetOrders& orders);

}  // namespace propagator::kernels
