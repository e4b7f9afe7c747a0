#pragma once

#include <torch/types.h>

namespace propagator::kernels {

// The log of a mixture of K normal distributions at x (…), from the 3 K numbers
// (…, 3 K) that a network gives of each:
//   log Σ_k softmax(w)_k N(x | m_k + place_k, s_k²),
//   (w, m, l) = raw,  log s = most tanh(l / most),
// with `places` (K). Value and gradients in one pass over the rows, of K
// numbers each. Differentiable once, by raw and x.
torch::Tensor mixture_log_prob(const torch::Tensor& raw, const torch::Tensor& x,
                               const torch::Tensor& places, double most);

// The same in plain operations: the meaning.
torch::Tensor mixture_log_prob_reference(const torch::Tensor& raw,
                                         const torch::Tensor& x,
                                         const torch::Tensor& places,
                                         double most);

}  // namespace propagator::kernels
