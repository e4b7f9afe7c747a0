#pragma once

#include <torch/types.h>

#include <vector>

namespace propagator::autodiff {

// The gradient of a scalar by each of the parameters, zero where it does not
// depend on one: what autograd returns, and what layers that know better add to
// `.grad` by themselves (nn/fused_layer.h). `.grad` is left as it was.
std::vector<torch::Tensor> parameter_gradients(
    const torch::Tensor& scalar, const std::vector<torch::Tensor>& parameters,
    bool keep_graph = false);

}  // namespace propagator::autodiff
