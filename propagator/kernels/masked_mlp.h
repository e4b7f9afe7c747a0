#pragma once

#include <torch/types.h>

#include <vector>

namespace propagator::kernels {

// Layers whose weights are multiplied by masks of 0 and 1, each of which after
// the first adds to what it gets:
//   a_0 = W_0 x + b_0,   a_n = a_{n-1} + W_n silu(a_{n-1}) + b_n,
//   y = W silu(a_last) + b,
// x (N, in) → y (N, out). Three tensors a layer, one after the other: weight
// (out, in), bias (out), mask (out, in); the layer that gives y comes last, and
// there are two at least. Some rows at a time go through all layers, forward
// and backward, while they are in the cache or, on CUDA, in the shared memory
// of a block: networks of densities are so small that single operations cost
// more than their numbers. Differentiable once; its sums have a fixed order.
torch::Tensor masked_mlp(const torch::Tensor& x,
                         const std::vector<torch::Tensor>& layers);

// The same in plain operations: the meaning.
torch::Tensor masked_mlp_reference(const torch::Tensor& x,
                                   const std::vector<torch::Tensor>& layers);

// Whether there is a kernel: on the CPU in float32 and float64, on CUDA in
// float32, of layers that are not too wide to stay in the cache.
bool has_masked_mlp(const torch::Tensor& x,
                    const std::vector<torch::Tensor>& layers);

}  // namespace propagator::kernels
