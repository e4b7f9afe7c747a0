#pragma once

#include <torch/types.h>

#include "propagator/kernels/jet/jet_orders.h"

namespace propagator::kernels {

// x Wᵀ of every row of a jet, (M, …, in) → (M, …, out), and b on the value
// alone, which a plain layer would add to all rows. weight (out, in), bias
// (out). Differentiable once.
torch::Tensor jet_linear(const torch::Tensor& rows, const torch::Tensor& weight,
                         const torch::Tensor& bias);

// jet_linear(jet_wavelet(rows, w1, w2, orders), weight, bias), which keeps the
// rows for the backward pass, not the wavelets: it recomputes them where it has
// their sines at hand.
torch::Tensor jet_wavelet_linear(const torch::Tensor& rows,
                                 const torch::Tensor& w1,
                                 const torch::Tensor& w2,
                                 const torch::Tensor& weight,
                                 const torch::Tensor& bias,
                                 const JetOrders& orders);

// jet_linear in plain tensor operations: the meaning.
torch::Tensor jet_linear_reference(const torch::Tensor& rows,
                                   const torch::Tensor& weight,
                                   const torch::Tensor& bias);

}  // namespace propagator::kernels
