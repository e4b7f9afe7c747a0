#pragma once

#include <torch/types.h>

namespace propagator::kernels {

// Causal attention as a kernel of the CPU (causal_attention.h): no T × T
// weights are kept. Heads are worked on side by side, each by one thread in one
// order, so that bits do not depend on the number of threads.
struct CausalInputs {
  torch::Tensor q, k, v;  // (B, H, T, D)
  int64_t prefix;
  bool sees_itself;
};
struct CausalForward {
  torch::Tensor out;      // (B, H, T, D), in memory (B, T, H, D)
  torch::Tensor log_sum;  // (B, H, T), as in PackedAttention
};
struct CausalGradients {
  torch::Tensor packed;   // (B, T, 3, H, D)
  torch::Tensor q, k, v;  // (B, H, T, D), its parts
};
CausalForward causal_attention_cpu(const CausalInputs& in);
CausalGradients causal_attention_backward_cpu(const torch::Tensor& grad,
                                              const CausalInputs& in,
                                              const torch::Tensor& log_sum);
// Whether it takes this device and type.
bool has_causal_attention_cpu(const torch::Tensor& x);

}  // namespace propagator::kernels
