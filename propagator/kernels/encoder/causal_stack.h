#pragma once

#include <torch/types.h>

#include <vector>

namespace propagator::kernels {

// A stack of the pre-norm layers of nn/encoder.h, width C, hidden width F, and
// the norm behind them.
struct StackWeights {
  // Ten a layer: norm1 (C), its bias (C), qkv (3 C, C), output (C, C), norm2
  // (C), its bias (C), up (F, C), its bias (F), down (C, F), its bias (C).
  std::vector<torch::Tensor> layers;
  torch::Tensor norm, norm_bias;  // (C)
  int64_t heads = 1;
  double eps = 1e-5;
};

// N sequences of T tokens, before which all of them have the same first token,
// if there is one.
struct StackTokens {
  torch::Tensor first;  // (1, C); (0, C): none
  torch::Tensor rest;   // (N, T, C)
};

// The tokens behind the stack, each of which attends to those up to itself. The
// first token, which sees only itself, goes through the layers once and not
// once for each sequence; the others do so some sequences at a time, while they
// are in the cache. Differentiable once; its sums have a fixed order.
StackTokens causal_stack(const StackTokens& tokens,
                         const StackWeights& weights);

// The same in plain operations, with the first token written out: the meaning.
StackTokens causal_stack_reference(const StackTokens& tokens,
                                   const StackWeights& weights);

// Whether there is a kernel: on the CPU, in float32 and float64, of few tokens
// whose widths fill vectors.
bool has_causal_stack(const StackTokens& tokens, const StackWeights& weights);

}  // namespace propagator::kernels
