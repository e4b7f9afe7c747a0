#pragma once

#include <torch/types.h>

namespace propagator::nn {

// Attention to P visible tokens alone. q_i · k_j = x_i · (Wqᵀ k_j), and the
// output is Σ_j p_ij (Wo v_j), head by head: the projections of query and
// output are folded into H·P keys and values of each case, and no C × C product
// is left for the T tokens.
struct FoldingWeights {
  torch::Tensor query, output;  // (H, D, C)
  torch::Tensor kv;             // (2 C, C)
};

// Views of the projections qkv (3 C, C) and output (C, C), or of their
// gradients, which are undefined for frozen ones.
inline FoldingWeights folding_weights(const torch::Tensor& qkv,
                                      const torch::Tensor& output,
                                      int64_t heads) {
  FoldingWeights w;
  if (qkv.defined()) {
    const int64_t width = qkv.size(1);
    w.query = qkv.narrow(0, 0, width).view({heads, width / heads, width});
    w.kv = qkv.narrow(0, width, 2 * width);
  }
  if (output.defined()) {
    const int64_t width = output.size(0);
    w.output = output.view({width, heads, width / heads}).permute({1, 2, 0});
  }
  return w;
}

// Per token, projecting queries and outputs costs 2 C² products; folding them
// into the few keys and values costs 2 C · H · P.
inline bool folding_pays(int64_t heads, int64_t prefix, int64_t width) {
  return heads * prefix < width;
}

}  // namespace propagator::nn
