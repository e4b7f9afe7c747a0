#pragma once

#include <torch/types.h>

namespace propagator::kernels {

// y = w₁ sin x + w₂ cos x through a jet (autodiff/jet.h) of order 2 at most:
// rows (M, …) hold x_0, then x_1 of `first` directions, then x_2 of the first
// `second` of them.
struct JetOrders {
  int64_t first = 0, second = 0;
  int64_t rows() const { return 1 + first + second; }
};

// In one pass over the rows, forward and backward, on the CPU with sines and
// cosines that vectorise. w1, w2: (1). Differentiable once.
torch::Tensor jet_waves(const torch::Tensor& rows, const torch::Tensor& w1,
                        const torch::Tensor& w2, const JetOrders& orders);

// The same in plain tensor operations: the meaning.
torch::Tensor jet_waves_reference(const torch::Tensor& rows,
                                  const torch::Tensor& w1,
                                  const torch::Tensor& w2,
                                  const JetOrders& orders);

}  // namespace propagator::kernels
