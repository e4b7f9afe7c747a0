#pragma once

#include <optional>

#include "propagator/kernels/jet/jet_orders.h"
#include "propagator/nn/attention_bias.h"

namespace propagator::nn {

struct SetLayerWeights;  // fused_set_layer.h

// The ways there are to compute attention. They give the same numbers; each is
// the fastest for some biases, sizes and devices.
enum class AttentionKernel {
  kReference,     // attention_reference: all Tq × Tk, any bias
  kPrefix,        // keys and values of the visible prefix alone
  kFoldedPrefix,  // the same, with queries and output folded into them
  kCausal,        // queries in blocks, each against the keys it attends to
  kGreen,         // keys as they pass by, with Γ computed (green_attention.h)
  kFusedLayer,    // a whole encoder layer as one node (fused_layer.h)
  kSet,           // one pass over each set and head (set_attention.h)
  kPackedSets,    // a whole set layer without padding (fused_set_layer.h)
  kJet,           // one pass over each window of jets (jet_attention.h)
  kJetCross,      // tokens pass by points that move (jet_cross_attention.h)
};

// Only the work the bias leaves, or all of it, as the paper does.
enum class AttentionWork { kVisible, kFullMask };

// Who asks, and with what.
struct AttentionCase {
  enum class Form {
    kTokens,    // queries, keys and values, each from tokens (B, T, C)
    kLayer,     // an encoder layer of tokens (B, T, C)
    kSet,       // the projected tokens of sets (B, T, 3 C)
    kSetLayer,  // a set layer of tokens (B, T, C), given its weights
    kWindows,   // jets of windows (M; N, T, C)
    kPoints,    // jets of points (M; N, C) that ask tokens
  };
  Form form = Form::kTokens;
  torch::Tensor x;
  int64_t heads = 1;
  AttentionWork work = AttentionWork::kVisible;
  const SetLayerWeights* weights = nullptr;  // of a set layer
  // Of jets that kernels may take.
  std::optional<kernels::JetOrders> orders = std::nullopt;
};

// The one place where the kernel is chosen.
AttentionKernel choose_attention_kernel(const AttentionBias& bias,
                                        const AttentionCase& asked);

// Attention of heads, q (B, H, Tq, D), k and v (B, H, Tk, D) → (B, H, Tq, D):
// by the kernel for Green's functions where there is one and the bias is all
// that it knows, else attention_reference. Queries and keys may be different
// sets, as in cross-attention.
torch::Tensor attend(const torch::Tensor& q, const torch::Tensor& k,
                     const torch::Tensor& v, const AttentionBias& bias);

}  // namespace propagator::nn
