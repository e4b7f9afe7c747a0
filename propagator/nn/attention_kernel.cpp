#include "propagator/nn/attention_kernel.h"

#include "propagator/kernels/encoder/causal_attention.h"
#include "propagator/kernels/greens/green_attention.h"
#include "propagator/kernels/jet/jet_attention.h"
#include "propagator/kernels/jet/jet_cross_attention.h"
#include "propagator/kernels/set/set_attention.h"
#include "propagator/nn/folding.h"
#include "propagator/nn/fused_layer.h"
#include "propagator/nn/fused_set_layer.h"

namespace propagator::nn {
namespace {

using Form = AttentionCase::Form;
using Keys = AttentionBias::Keys;
using Kernel = AttentionKernel;

// A Green's function and padding are all that the kernel knows. `head` is
// (B, …, T, D).
bool green_pays(const AttentionBias& bias, const torch::Tensor& head) {
  if (!bias.green) return false;
  auto rest = bias;
  rest.green.reset();
  rest.padding = torch::Tensor();
  return rest.by_number() && bias.keys == Keys::kAll && bias.window == 0 &&
         kernels::has_green_attention(head);
}

AttentionKernel for_tokens(const AttentionBias& bias,
                           const AttentionCase& asked) {
  const bool known = bias.by_number() && bias.window == 0;
  if (asked.work == AttentionWork::kFullMask) return Kernel::kReference;
  const int64_t depth = asked.x.size(2) / asked.heads;
  if (green_pays(bias, asked.x.narrow(2, 0, depth).unsqueeze(1))) {
    return Kernel::kGreen;
  }
  if (!known) return Kernel::kReference;
  if (bias.keys == Keys::kCausal) return Kernel::kCausal;
  if (bias.keys != Keys::kPrefix) return Kernel::kReference;
  return folding_pays(asked.heads, bias.prefix, asked.x.size(2))
             ? Kernel::kFoldedPrefix
             : Kernel::kPrefix;
}

AttentionKernel for_layer(const AttentionBias& bias,
                          const AttentionCase& asked) {
  const auto kernel = for_tokens(bias, asked);
  if (!fusing_pays(asked.x)) return kernel;
  const bool fused = kernel == Kernel::kFoldedPrefix ||
                     (kernel == Kernel::kCausal &&
                      kernels::packed_attention_is_fused(asked.x, asked.heads));
  return fused ? Kernel::kFusedLayer : kernel;
}

// Sets have no order: what is known beside full attention is padding.
bool has_padding_alone(const AttentionBias& bias) {
  auto rest = bias;
  rest.padding = torch::Tensor();
  return rest.by_number() && bias.keys == Keys::kAll && bias.window == 0;
}

// The kernel adds a constant to the scores of every window.
AttentionKernel for_windows(const AttentionBias& bias,
                            const AttentionCase& asked) {
  const bool known = asked.orders && !bias.logits && !bias.green;
  return known &&
                 kernels::has_jet_attention(asked.x, asked.heads, *asked.orders)
             ? Kernel::kJet
             : Kernel::kReference;
}

}  // namespace

AttentionKernel choose_attention_kernel(const AttentionBias& bias,
                                        const AttentionCase& asked) {
  if (bias.hard) return Kernel::kReference;
  switch (asked.form) {
    case Form::kTokens:
      return for_tokens(bias, asked);
    case Form::kLayer:
      return for_layer(bias, asked);
    case Form::kSet:
      return has_padding_alone(bias) &&
                     kernels::has_set_attention(asked.x, asked.heads)
                 ? Kernel::kSet
                 : Kernel::kReference;
    case Form::kSetLayer:
      return has_padding_alone(bias) &&
                     fused_set_layer_pays(asked.x, *asked.weights, asked.heads)
                 ? Kernel::kPackedSets
                 : Kernel::kReference;
    case Form::kWindows:
      return for_windows(bias, asked);
    case Form::kPoints:
      return asked.orders && kernels::has_jet_cross_attention(
                                 asked.x, asked.heads, *asked.orders)
                 ? Kernel::kJetCross
                 : Kernel::kReference;
  }
  return Kernel::kReference;
}

torch::Tensor attend(const torch::Tensor& q, const torch::Tensor& k,
                     const torch::Tensor& v, const AttentionBias& bias) {
  if (!green_pays(bias, q)) return attention_reference(q, k, v, bias);
  if (bias.plan) {
    return kernels::planned_green_attention(q, k, v, *bias.green, *bias.plan);
  }
  return kernels::green_attention(
      q, k, v, *bias.green, {bias.at.queries, bias.at.keys, bias.padding});
}

}  // namespace propagator::nn
