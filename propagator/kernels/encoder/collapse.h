#pragma once

#include <torch/types.h>

namespace propagator::kernels {

// What a published frame embedding (nn/frame_embedding.h) comes down to.
struct Collapsed {
  torch::Tensor weight;  // (O, P), Σ_f w[o, p, f]
  torch::Tensor offset;  // (O), Σ_pf w[o, p, f] encoding[p, f]
};

// w (O, P · F), encoding (P, F); one pass over w on CUDA.
Collapsed collapse(const torch::Tensor& w, const torch::Tensor& encoding);

// dw[o, p, f] += dweight[o, p] + doffset[o] encoding[p, f]
void collapse_backward(torch::Tensor dw, const torch::Tensor& dweight,
                       const torch::Tensor& doffset,
                       const torch::Tensor& encoding);

}  // namespace propagator::kernels
