#include "propagator/nn/cross_attention.h"

#include <cmath>

#include "propagator/kernels/jet/jet_cross_attention.h"
#include "propagator/nn/attention_kernel.h"

namespace propagator::nn {

using autodiff::Jet;
using torch::Tensor;

Jet cross_attention_reference(const Jet& queries, const Tensor& keys,
                              const Tensor& values, int64_t heads) {
  const auto by_heads = [&](const Tensor& x) {  // (…, T, C) → (…, H, T, D)
    return x.unflatten(-1, {heads, -1}).transpose(-3, -2);
  };
  const auto k = by_heads(keys).transpose(-2, -1), v = by_heads(values);
  const double depth = static_cast<double>(keys.size(1) / heads);
  const auto scores = queries.linear([&](const Tensor& q) {
    return torch::matmul(by_heads(q), k) / std::sqrt(depth);
  });
  return autodiff::softmax(scores).linear([&](const Tensor& weights) {
    return torch::matmul(weights, v).transpose(-3, -2).flatten(-2);
  });
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
