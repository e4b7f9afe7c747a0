#include "propagator/nn/space_time_block.h"

#include <torch/types.h>

#include <cmath>
#include <limits>

#include "propagator/kernels/gelu.h"
#include "propagator/kernels/set/set_attention.h"
#include "propagator/nn/attention_bias.h"
#include "propagator/nn/linear.h"

namespace propagator::nn {
namespace {

using torch::Tensor;

constexpr int64_t kHiddenPerBlockWidth = 4;

// (B, T + window - 1, S, H, D) → (B, T, S, H, window, D): of each frame the
// last `window` up to it.
Tensor windows_of(const Tensor& frames, int64_t window) {
  if (window == frames.size(1)) return frames.movedim(1, 3).unsqueeze(1);
  std::vector<Tensor> all;
  for (int64_t n = 0; n < window; ++n) {
    all.push_back(frames.narrow(1, n, frames.size(1) - window + 1));
  }
  return torch::stack(all, 4);
}

// So many frames of zeros before the first.
Tensor after_zeros(const Tensor& frames, int64_t missing) {
  if (missing == 0) return frames;
  auto shape = frames.sizes().vec();
  shape[1] = missing;
  return torch::cat({torch::zeros(shape, frames.options()), frames}, 1);
}

Tensor joined(const Tensor& before, const Tensor& frames) {
  return before.defined() ? torch::cat({before, frames}, 1) : frames;
}

Tensor last_of(const Tensor& frames, int64_t count) {
  const int64_t kept = std::min(count, frames.size(1));
  return frames.narrow(1, frames.size(1) - kept, kept);
}

}  // namespace

SpaceTimeBlockImpl::SpaceTimeBlockImpl(const SpaceTimeBlockOptions& options)
    : options_(options),
      norm1_(torch::nn::LayerNormOptions({options.width})),
      norm2_(torch::nn::LayerNormOptions({options.width})),
      norm3_(torch::nn::LayerNormOptions({options.width})),
      space_qkv_(linear_without_bias(options.width, 3 * options.width)),
      space_output_(linear_without_bias(options.width, options.width)),
      time_qkv_(linear_without_bias(options.width, 3 * options.width)),
      time_output_(linear_without_bias(options.width, options.width)),
      linear1_(options.width, kHiddenPerBlockWidth * options.width),
      linear2_(kHiddenPerBlockWidth * options.width, options.width) {
  register_module("norm1", norm1_);
  register_module("space_qkv", space_qkv_);
  register_module("space_output", space_output_);
  register_module("norm2", norm2_);
  register_module("time_qkv", time_qkv_);
  register_module("time_output", time_output_);
  register_module("norm3", norm3_);
  register_module("linear1", linear1_);
  register_module("linear2", linear2_);
}

Tensor SpaceTimeBlockImpl::rotated_heads(const Tensor& x,
                                         const Tensor& angles) const {
  return rotated(x.unflatten(-1, {options_.heads, -1}), angles)
      .to(x.scalar_type());
}

void SpaceTimeBlockImpl::show_space(const Tensor& q, const Tensor& k,
                                    int64_t frames) const {
  const double scale = 1 / std::sqrt(static_cast<double>(q.size(-1)));
  const auto scores = torch::einsum("bhd,bshd->bhs",
                                    {q.select(1, observer_->patch) * scale, k});
  observer_->space(
      torch::softmax(scores, -1).unflatten(0, {-1, frames}));  // (B, T, H, S)
}

Tensor SpaceTimeBlockImpl::over_space(const Tensor& x, const Tensor& angles) {
  const auto parts =
      apply_linear(space_qkv_, x.flatten(0, 1)).chunk(3, -1);  // (B T, S, C)
  const auto by = angles.unsqueeze(1);                         // (S, 1, D / 2)
  const auto q = rotated_heads(parts[0], by), k = rotated_heads(parts[1], by);
  if (observer_) show_space(q, k, x.size(1));
  const auto mixed = kernels::set_attention(
      torch::cat({q.flatten(-2), k.flatten(-2), parts[2]}, -1),
      {.heads = options_.heads, .wanted = x.size(2)});
  return apply_linear(space_output_, mixed).view(x.sizes());
}

Tensor SpaceTimeBlockImpl::over_time(const Tensor& x, const Tensor& angles,
                                     FrameCache* cache) {
  const auto parts = apply_linear(time_qkv_, x).chunk(3, -1);  // (B, T, S, C)
  const auto by = angles.unsqueeze(1).unsqueeze(1);  // (T, 1, 1, D / 2)
  const auto q = rotated_heads(parts[0], by);        // (B, T, S, H, D)
  auto k = rotated_heads(parts[1], by);
  auto v = parts[2].unflatten(-1, {options_.heads, -1});
  if (cache != nullptr) {
    k = joined(cache->keys, k);
    v = joined(cache->values, v);
    cache->keys = last_of(k, options_.memory - 1);
    cache->values = last_of(v, options_.memory - 1);
  }
  const int64_t frames = x.size(1), known = k.size(1);
  const int64_t window = std::min(options_.memory, known);
  const int64_t missing = window - 1 - (known - frames);
  const double scale = 1 / std::sqrt(static_cast<double>(q.size(-1)));
  auto scores = torch::matmul(windows_of(after_zeros(k, missing), window),
                              (q * scale).unsqueeze(-1))
                    .squeeze(-1);  // (B, T, S, H, window)
  if (missing > 0) {
    const auto numbers = scores.options().dtype(torch::kInt64);
    const auto place = torch::arange(frames, numbers).unsqueeze(1) +
                       torch::arange(window, numbers);
    scores = scores.masked_fill((place < missing).view({frames, 1, 1, window}),
                                -std::numeric_limits<double>::infinity());
  }
  // Autocast widens a softmax.
  const auto weights = torch::softmax(scores, -1).to(v.scalar_type());
  if (observer_) observer_->time(weights.select(2, observer_->patch));
  const auto mixed = torch::matmul(weights.unsqueeze(-2),
                                   windows_of(after_zeros(v, missing), window))
                         .squeeze(-2)
                         .flatten(-2);
  return apply_linear(time_output_, mixed);
}

// Queries of all frames, keys and values of the given ones.
Tensor SpaceTimeBlockImpl::over_given(const Tensor& x, const Tensor& angles) {
  const int64_t width = x.size(-1), given = options_.given;
  const auto& weight = time_qkv_->weight;
  const auto known =
      torch::linear(x.narrow(1, 0, given), weight.narrow(0, width, 2 * width))
          .chunk(2, -1);
  const auto by = angles.unsqueeze(1).unsqueeze(1);  // (T, 1, 1, D / 2)
  const auto by_patch = [](const Tensor& all) {      // (B, S, H, T, D)
    return all.permute({0, 2, 3, 1, 4});
  };
  const auto q =
      by_patch(rotated_heads(torch::linear(x, weight.narrow(0, 0, width)), by));
  const auto k = by_patch(rotated_heads(known[0], by.narrow(0, 0, given)));
  const auto v = by_patch(known[1].unflatten(-1, {options_.heads, -1}));
  const double scale = 1 / std::sqrt(static_cast<double>(q.size(-1)));
  const auto scores = torch::matmul(q * scale, k.transpose(-1, -2));
  const auto weights =
      torch::softmax(scores, -1).to(v.scalar_type());  // (B, S, H, T, given)
  if (observer_) {
    observer_->time(weights.select(1, observer_->patch).transpose(1, 2));
  }
  const auto mixed =
      torch::matmul(weights, v).permute({0, 3, 1, 2, 4}).flatten(-2);
  return apply_linear(time_output_, mixed);
}

Tensor SpaceTimeBlockImpl::forward(const Tensor& x,
                                   const SpaceTimeAngles& angles,
                                   FrameCache* cache) {
  const auto y = x + over_space(apply_norm(norm1_, x), angles.space);
  const auto normed = apply_norm(norm2_, y);
  const auto z =
      y + (options_.given > 0 ? over_given(normed, angles.time)
                              : over_time(normed, angles.time, cache));
  return z + apply_linear(linear2_, kernels::gelu(apply_linear(
                                        linear1_, apply_norm(norm3_, z))));
}

}  // namespace propagator::nn
