#pragma once

#include <torch/types.h>

#include <vector>

#include "propagator/kernels/set/packed_sets.h"

namespace propagator::nn {

// The parameters of a SetEncoderLayer (set_encoder.h) of width C and hidden
// width F.
struct SetLayerWeights {
  torch::Tensor qkv, qkv_bias;                         // (3 C, C), (3 C)
  torch::Tensor output, output_bias;                   // (C, C), (C)
  torch::Tensor linear1, linear1_bias;                 // (F, C), (F)
  torch::Tensor linear2, linear2_bias;                 // (C, F), (C)
  torch::Tensor norm1, norm1_bias, norm2, norm2_bias;  // (C)

  std::vector<torch::Tensor> all() const;
};

// Draws of its dropouts: all of them or, as undefined tensors, none.
struct SetLayerFactors {
  torch::Tensor weights;            // (B, H, T, T), or (B, H, 1, T)
  torch::Tensor attention, output;  // (Q, C)
  torch::Tensor hidden;             // (Q, F)
};

struct SetLayerOptions {
  int64_t heads = 1;
  bool first = false;  // answers for the first token of each set alone
  double eps = 1e-5;   // of the norms
};

// A SetEncoderLayer with norms after the sums and ReLU, on the tokens of packed
// sets, (R, C) → (Q, C): of all tokens, or of the first of each set. It is one
// node of the graph, on one thread of the CPU: with the few tokens of a small
// step the calling of operations costs more than their work. Differentiable
// once; the gradients of the weights that are trained are added in place
// (gradient_of).
torch::Tensor fused_set_layer(const torch::Tensor& x,
                              const kernels::PackedSets& sets,
                              const SetLayerWeights& weights,
                              const SetLayerFactors& factors,
                              const SetLayerOptions& options);

// Whether it can be taken for tokens (B, T, C), and is the faster way.
bool fused_set_layer_pays(const torch::Tensor& tokens,
                          const SetLayerWeights& weights, int64_t heads);

}  // namespace propagator::nn
