#include "propagator/nn/cross_attention.h"

#include <cmath>

#include "propagator/kernels/jet/jet_cross_attention.h"
#include "propagator/nn/attention_kernel.h"

namespace propagator::nn {

using autodiff::Jet;
using torch::Tensor;

namespace {

// (…, T, C) → (…, H, T, D)
Tensor by_heads(const Tensor& x, int64_t heads) {
  return x.unflatten(-1, {heads, -1}).transpose(-3, -2);
}

// q kᵀ / √D, (…, H, N, T)
Tensor scores_of(const Tensor& queries, const Tensor& keys, int64_t heads) {
  const auto depth = static_cast<double>(keys.size(1) / heads);
  return torch::matmul(by_heads(queries, heads),
                       by_heads(keys, heads).transpose(-2, -1)) /
         std::sqrt(depth);
}

}  // namespace

Jet cross_attention_reference(const Jet& queries, const Tensor& keys,
                              const Tensor& values, int64_t heads) {
  const auto scores = queries.linear(
      [&](const Tensor& q) { return scores_of(q, keys, heads); });
  return autodiff::softmax(scores).linear([&](const Tensor& weights) {
    return torch::matmul(weights, by_heads(values, heads))
        .transpose(-3, -2)
        .flatten(-2);
  });
}

Tensor cross_attention_weights(const Tensor& queries, const Tensor& keys,
                               int64_t heads) {
  return torch::softmax(scores_of(queries, keys, heads), -1);
}

Jet cross_attention(const Jet& queries, const Tensor& keys,
                    const Tensor& values, int64_t heads) {
  AttentionCase asked{.form = AttentionCase::Form::kPoints,
                      .x = queries.rows(),
                      .heads = heads};
  const auto orders = queries.layout().orders();
  if (allows_kernels(queries)) asked.orders = orders;
  if (choose_attention_kernel(AttentionBias::full(), asked) !=
      AttentionKernel::kJetCross) {
    return cross_attention_reference(queries, keys, values, heads);
  }
  return {
      kernels::jet_cross_attention(queries.rows(), keys, values, heads, orders),
      queries.layout()};
}

}  // namespace propagator::nn
