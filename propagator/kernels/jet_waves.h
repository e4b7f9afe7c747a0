#pragma once

#include <torch/types.h>

#include "propagator/kernels/jet_orders.h"

namespace propagator::kernels {

// y = w₁ sin x + w₂ cos x through a jet of order 2 at most, (M, …) → (M, …), in
// one pass over the rows, forward and backward, on the CPU with sines and
// cosines that vectorise. w1, w2: (1). Differentiable once.
torch::Tensor jet_waves(const torch::Tensor& rows, const torch::Tensor& w1,
                        const torch::Tensor& w2, const JetOrders& orders);

// The same in plain tensor operations: the meaning.
torch::Tensor jet_waves_reference(const torch::Tensor& rows,
                                  const torch::Tensor& w1,
                                  const torch::Tensor& w2,
                                  const JetOrders& orders);

}  // namespace propagator::kernels
