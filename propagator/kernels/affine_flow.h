#pragma once

#include <torch/types.h>

#include <vector>

namespace propagator::kernels {

// One map of a flow: a shift and a scale of each variable, and the masked
// network (masked_mlp.h) that gives two numbers of each.
struct FlowMapWeights {
  torch::Tensor shift, log_scale;     // (D)
  std::vector<torch::Tensor> layers;  // (in, …, 2 D)
};

struct FlowValues {
  torch::Tensor value, log_slope;  // (N, D), (N)
};

// Affine autoregressive maps, one after the other, of x (N, D), given (N, C):
//   t = (v - shift) exp(log_scale),  (mean_d, raw_d) = network(t, given),
//   v ← (t - mean) exp(s),           s = -most tanh(raw / most),
// with the sum of all log_scale and s, which is the log of the determinant if
// mean_d and raw_d depend on the variables before d alone. Where there is a
// kernel all maps are one launch, and their backward pass two: the networks are
// so small that launches cost more than their numbers. Differentiable once; its
// sums have a fixed order.
FlowValues affine_flow(const torch::Tensor& x, const torch::Tensor& given,
                       const std::vector<FlowMapWeights>& maps, double most);

// The same map by map: the meaning.
FlowValues affine_flow_reference(const torch::Tensor& x,
                                 const torch::Tensor& given,
                                 const std::vector<FlowMapWeights>& maps,
                                 double most);

// Whether there is a kernel: on CUDA, in float32, of networks that masked_mlp
// has one for, all of one shape.
bool has_affine_flow(const torch::Tensor& x, const torch::Tensor& given,
                     const std::vector<FlowMapWeights>& maps);

}  // namespace propagator::kernels
