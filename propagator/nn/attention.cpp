#include "propagator/nn/attention.h"

#include <fmt/format.h>

#include <cmath>

#include "propagator/core/error.h"
#include "propagator/kernels/encoder/cached_attention.h"
#include "propagator/kernels/encoder/causal_attention.h"
#include "propagator/nn/folding.h"
#include "propagator/nn/linear.h"

namespace propagator::nn {

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
                                              const AttentionBias& bias,
                                              AttentionWork work) {
  if (hard_ && !bias.hard) {
    auto hard = bias;
    hard.hard = true;
    return forward(x, hard, work);
  }
  if (observer_) observer_(weights(x, bias), bias);
  const auto kernel = choose_attention_kernel(
      bias, {.x = x, .heads = options_.heads, .work = work});
  const bool folded = kernel == AttentionKernel::kFoldedPrefix;
  if (folded && !has_prefix()) return folded_attention(x, bias.prefix);
  if (folded || kernel == AttentionKernel::kPrefix) {
    return prefix_attention(x, bias.prefix);
  }
  const auto [q, k, v] = project(x);
  if (kernel == AttentionKernel::kGreen) {
    return output_(gather(attend(q, k, v, bias), q));
  }
  return output_(gather(
      kernel == AttentionKernel::kCausal
          ? kernels::causal_attention(q, k, v, bias.prefix, bias.sees_itself)
          : attention_reference(q, k, v, bias),
      q));
}

torch::Tensor MultiHeadAttentionImpl::gather(const torch::Tensor& mixed,
                                             const torch::Tensor& q) {
  return merge(has_prefix() ? mixed + prefix_->forward(q) : mixed);
}

void MultiHeadAttentionImpl::add_prefix(int64_t tokens) {
  prefix_ = register_module(
      kPrefixName, LearnedPrefix(options_.width, options_.heads, tokens));
}

torch::Tensor MultiHeadAttentionImpl::weights(const torch::Tensor& x,
                                              const AttentionBias& bias) {
  const bool prefix = bias.keys == AttentionBias::Keys::kPrefix &&
                      bias.by_number() && bias.window == 0;
  const auto seen = prefix ? x.slice(1, 0, bias.prefix) : x;
  const auto q = split(torch::linear(x, query()));
  const auto k = split(torch::linear(seen, key()));
  auto left = prefix ? AttentionBias::full() : bias;
  left.hard = bias.hard;
  return attention_weights(q, k, left);
}

torch::Tensor MultiHeadAttentionImpl::prefix_attention(const torch::Tensor& x,
                                                       int64_t prefix) {
  const auto visible = x.slice(1, 0, prefix);  // (B, P, C)
  const auto q = split(torch::linear(x, query()));
  const auto k = split(torch::linear(visible, key()));
  const auto v = split(torch::linear(visible, value()));
  return output_(
      gather(attention_reference(q, k, v, AttentionBias::full()), q));
}

torch::Tensor MultiHeadAttentionImpl::folded_attention(const torch::Tensor& x,
                                                       int64_t prefix) {
  const int64_t batch = x.size(0), tokens = x.size(1), width = options_.width;
  const int64_t heads = options_.heads, depth = width / heads;
  const double scale = 1 / std::sqrt(static_cast<double>(depth));
  const auto visible = x.slice(1, 0, prefix);                   // (B, P, C)
  const auto k = split(torch::linear(visible, key())) * scale;  // (B, H, P, D)
  const auto v = split(torch::linear(visible, value()));
  const auto folding = folding_weights(qkv_->weight, output_->weight, heads);
  // Head by head over all cases at once: a batched product would copy the
  // weights for every case.
  const auto fold = [&](const torch::Tensor& x, const torch::Tensor& w) {
    const auto rows = x.transpose(0, 1).reshape({heads, batch * prefix, depth});
    return torch::bmm(rows, w)
        .view({heads, batch, prefix, width})
        .transpose(0, 1)
        .reshape({batch, heads * prefix, width});
  };
  const auto folded_k = fold(k, folding.query),
             folded_v = fold(v, folding.output);
  const auto scores = torch::matmul(x, folded_k.transpose(1, 2));
  const auto weights =
      torch::softmax(scores.view({batch, tokens, heads, prefix}), -1)
          .view({batch, tokens, heads * prefix});
  return torch::matmul(weights, folded_v);
}

torch::Tensor MultiHeadAttentionImpl::step(const torch::Tensor& x,
                                           KeyValueCache& cache,
                                           NewTokens among) {
  const int64_t count = x.size(1);
  const auto [q, k, v] = project(x);
  cache.keys.narrow(2, cache.length, count).copy_(k);
  cache.values.narrow(2, cache.length, count).copy_(v);
  cache.length += count;
  const bool masked = among == NewTokens::kCausal && count > 1;
  if (!masked && !hard_) {
    const auto mixed =
        kernels::cached_attention(q, cache.keys, cache.values, cache.length);
    return apply_linear(output_, gather(mixed, q));
  }
  AttentionBias bias;
  bias.hard = hard_;
  if (masked) {
    const auto mask =
        kernels::causal_mask(cache.length, 0, /*sees_itself=*/true, q.options())
            .narrow(0, cache.length - count, count);
    bias.logits = [mask](const AttentionCoordinates&) { return mask; };
  }
  const auto mixed =
      attention_reference(q, cache.keys.narrow(2, 0, cache.length),
                          cache.values.narrow(2, 0, cache.length), bias);
  return apply_linear(output_, gather(mixed, q));
}

}  // namespace propagator::nn
