#include "propagator/nn/attention.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "propagator/core/error.h"
#include "propagator/kernels/encoder/cached_attention.h"
#include "propagator/kernels/encoder/causal_attention.h"
#include "propagator/nn/linear.h"

namespace propagator::nn {

torch::Tensor PrefixMask::additive(int64_t tokens,
                                   const torch::TensorOptions& options) const {
  if (kind == Kind::kCausal) {
    return kernels::causal_mask(tokens, prefix, sees_itself, options);
  }
  auto mask = torch::full({tokens, tokens},
                          -std::numeric_limits<double>::infinity(), options);
  mask.slice(1, 0, prefix).zero_();
  return mask;
}

MultiHeadAttentionImpl::MultiHeadAttentionImpl(const AttentionOptions& options)
    : options_(options),
      qkv_(linear_without_bias(options.width, 3 * options.width)),
      output_(linear_without_bias(options.width, options.width)) {
  if (options.heads < 1 || options.width % options.heads != 0) {
    throw UsageError(
        fmt::format("[attention] expected a number of heads that divides the "
                    "width {}, got {}",
                    options.width, options.heads));
  }
  register_module("qkv", qkv_);
  register_module("output", output_);
}

torch::Tensor MultiHeadAttentionImpl::split(const torch::Tensor& x) const {
  const int64_t depth = options_.width / options_.heads;
  return x.view({x.size(0), x.size(1), options_.heads, depth}).transpose(1, 2);
}

torch::Tensor MultiHeadAttentionImpl::merge(const torch::Tensor& x) const {
  return x.transpose(1, 2).reshape({x.size(0), x.size(2), options_.width});
}

std::array<torch::Tensor, 3> MultiHeadAttentionImpl::project(
    const torch::Tensor& x) {
  const auto parts = apply_linear(qkv_, x).chunk(3, -1);
  return {split(parts[0]), split(parts[1]), split(parts[2])};
}

torch::Tensor MultiHeadAttentionImpl::forward(const torch::Tensor& x,
                                              const torch::Tensor& mask) {
  const auto [q, k, v] = project(x);
  return output_(merge(kernels::masked_attention(q, k, v, mask)));
}

torch::Tensor MultiHeadAttentionImpl::forward(const torch::Tensor& x,
                                              const PrefixMask& mask) {
  if (observer_) observer_(weights(x, mask), mask);
  if (mask.kind == PrefixMask::Kind::kCausal) {
    const auto [q, k, v] = project(x);
    return output_(merge(
        kernels::causal_attention(q, k, v, mask.prefix, mask.sees_itself)));
  }
  // Per token, projecting queries and outputs costs 2 C² products; folding
  // them into the few keys and values costs 2 C · H · prefix.
  const bool folding_pays = options_.heads * mask.prefix < options_.width;
  return folding_pays ? block_absorbed(x, mask.prefix) : block(x, mask.prefix);
}

torch::Tensor MultiHeadAttentionImpl::weights(const torch::Tensor& x,
                                              const PrefixMask& mask) {
  const bool causal = mask.kind == PrefixMask::Kind::kCausal;
  const auto seen = causal ? x : x.slice(1, 0, mask.prefix);
  const auto q = split(torch::linear(x, query()));
  const auto k = split(torch::linear(seen, key()));
  const auto hidden =
      causal ? mask.additive(x.size(1), x.options()) : torch::Tensor();
  return torch::softmax(kernels::attention_scores(q, k, hidden), -1);
}

torch::Tensor MultiHeadAttentionImpl::block(const torch::Tensor& x,
                                            int64_t prefix) {
  const auto visible = x.slice(1, 0, prefix);  // (B, P, C)
  const auto q = split(torch::linear(x, query()));
  const auto k = split(torch::linear(visible, key()));
  const auto v = split(torch::linear(visible, value()));
  return output_(merge(kernels::masked_attention(q, k, v, /*mask=*/{})));
}

// With P visible tokens, q_i · k_j = x_i · (Wqᵀ k_j) and the output is
// Σ_j p_ij (Wo v_j), head by head: the query and output projections are folded
// into H·P vectors, and no C × C product is left for the T tokens.
torch::Tensor MultiHeadAttentionImpl::block_absorbed(const torch::Tensor& x,
                                                     int64_t prefix) {
  const int64_t batch = x.size(0), tokens = x.size(1), width = options_.width;
  const int64_t heads = options_.heads, depth = width / heads;
  const double scale = 1 / std::sqrt(static_cast<double>(depth));
  const auto visible = x.slice(1, 0, prefix);                   // (B, P, C)
  const auto k = split(torch::linear(visible, key())) * scale;  // (B, H, P, D)
  const auto v = split(torch::linear(visible, value()));
  const auto wq = query().view({heads, depth, width});
  const auto wo =
      output_->weight.view({width, heads, depth}).permute({1, 2, 0});
  // Head by head over all cases at once: a batched product would copy the
  // weights for every case.
  const auto fold = [&](const torch::Tensor& x, const torch::Tensor& w) {
    const auto rows = x.transpose(0, 1).reshape({heads, batch * prefix, depth});
    return torch::bmm(rows, w)
        .view({heads, batch, prefix, width})
        .transpose(0, 1)
        .reshape({batch, heads * prefix, width});
  };
  const auto folded_k = fold(k, wq), folded_v = fold(v, wo);
  const auto scores = torch::matmul(x, folded_k.transpose(1, 2));
  const auto weights =
      torch::softmax(scores.view({batch, tokens, heads, prefix}), -1)
          .view({batch, tokens, heads * prefix});
  return torch::matmul(weights, folded_v);
}

torch::Tensor MultiHeadAttentionImpl::step(const torch::Tensor& x,
                                           KeyValueCache& cache) {
  const int64_t count = x.size(1);
  const auto [q, k, v] = project(x);
  cache.keys.narrow(2, cache.length, count).copy_(k);
  cache.values.narrow(2, cache.length, count).copy_(v);
  cache.length += count;
  const auto mixed =
      kernels::cached_attention(q, cache.keys, cache.values, cache.length);
  return apply_linear(output_, merge(mixed));
}

}  // namespace propagator::nn
