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

// The same without its derivative, and the way back by itself, for functions
// that it is a part of; all contiguous. Writes to `dx`, which may be `grad` on
// CUDA, and to `values`, if defined, what jet_waves_values gave.
torch::Tensor jet_waves_values(const torch::Tensor& rows,
                               const torch::Tensor& w1, const torch::Tensor& w2,
                               const JetOrders& orders);
struct WaveWeightGradients {
  torch::Tensor w1, w2;
};
WaveWeightGradients jet_waves_backward(const torch::Tensor& rows,
                                       const torch::Tensor& grad,
                                       const torch::Tensor& w1,
                                       const torch::Tensor& w2,
                                       const JetOrders& orders,
                                       torch::Tensor dx, torch::Tensor values);

}  // namespace propagator::kernels
