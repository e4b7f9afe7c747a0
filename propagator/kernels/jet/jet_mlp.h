#pragma once

#include <torch/types.h>

#include <vector>

#include "propagator/kernels/jet/jet_activation.h"

namespace propagator::kernels {

// Linear layers with an activation between them, on a jet whose rows `series`
// describes:
//   h_l = f(s_l (W_l h_(l-1) + b_l)),   y = s_L (W_L h_(L-1) + b_L).
struct JetMlp {
  std::vector<torch::Tensor> weights, biases;  // (out, in), (out)
  std::vector<double> scales;                  // s_l
  JetActivation activation = JetActivation::kTanh;
  JetSeries series;
};

// Rows (M; …, in) → (M; …, out). Some points at a time go through all layers,
// forward and backward, while they are in the cache: networks that solve PDEs
// to many digits are so small that single operations cost more than their
// numbers. The backward pass goes forward once more, which takes less than to
// keep what was on the way. Differentiable once; its sums have a fixed order.
// autodiff/mlp.h has the same layer by layer: the meaning.
torch::Tensor jet_mlp(const torch::Tensor& rows, const JetMlp& net);

// Whether there is a kernel: on the CPU, in float32 and float64, to order 4,
// of layers that are not too wide to stay in the cache.
bool has_jet_mlp(const torch::Tensor& rows, const JetMlp& net);

// Adds the gradients by all weights and biases at each point by itself: of
// point n, whose `gradient` by the answer's rows is (M; n, out), to column n of
// `into`. Its rows are the numbers of a flat buffer, in which those of layer l
// begin at weight_at[l] and bias_at[l]. Points are all dimensions but the first
// and the last.
void add_jet_mlp_point_gradients(const torch::Tensor& rows, const JetMlp& net,
                                 const torch::Tensor& gradient,
                                 const std::vector<int64_t>& weight_at,
                                 const std::vector<int64_t>& bias_at,
                                 torch::Tensor into);

}  // namespace propagator::kernels
