#pragma once

#include <torch/types.h>

#include "propagator/kernels/jet/jet_orders.h"

namespace propagator::kernels {

// y = w₁ sin x + w₂ cos x through a jet of order 2 at most, (M, …) → (M, …), in
// one pass over the rows, forward and backward, on the CPU with sines and
// cosines that vectorise. w1, w2: (1). Differentiable once.
torch::Tensor jet_wavelet(const torch::Tensor& rows, const torch::Tensor& w1,
                          const torch::Tensor& w2, const JetOrders& orders);

// The same in plain tensor operations: the meaning.
torch::Tensor jet_wavelet_reference(const torch::Tensor& rows,
                                    const torch::Tensor& w1,
                                    const torch::Tensor& w2,
                                    const JetOrders& orders);

// The same without its derivative, and the backward pass by itself, for
// functions that it is a part of; all contiguous. Writes to `dx`, which may be
// `grad` on CUDA, and to `values`, if defined, what jet_wavelet_values gave.
torch::Tensor jet_wavelet_values(const torch::Tensor& rows,
                                 const torch::Tensor& w1,
                                 const torch::Tensor& w2,
                                 const JetOrders& orders);
struct WaveletWeightGradients {
  torch::Tensor w1, w2;
};
WaveletWeightGradients jet_wavelet_backward(
    const torch::Tensor& rows, const torch::Tensor& grad,
    const torch::Tensor& w1, const torch::Tensor& w2, const JetOrders& orders,
    torch::Tensor dx, torch::Tensor values);

}  // namespace propagator::kernels
