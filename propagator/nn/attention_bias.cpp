#include "propagator/nn/attention_bias.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <numbers>
#include <stdexcept>

#include "propagator/kernels/encoder/causal_attention.h"

namespace propagator::nn {
namespace {

using torch::Tensor;
using torch::TensorOptions;

constexpr double kHidden = -std::numeric_limits<double>::infinity();

Tensor prefix_mask(int64_t queries, int64_t keys, int64_t prefix,
                   const TensorOptions& options) {
  auto mask = torch::full({queries, keys}, kHidden, options);
  mask.slice(1, 0, prefix).zero_();
  return mask;
}

Tensor window_mask(int64_t queries, int64_t keys, int64_t window,
                   const TensorOptions& options) {
  const auto number = [&](int64_t count) {
    return torch::arange(count, options.dtype(torch::kInt64))
        .div(window, "floor");
  };
  const auto apart = number(queries).unsqueeze(1) != number(keys).unsqueeze(0);
  return torch::zeros({queries, keys}, options).masked_fill(apart, kHidden);
}

// -m_h |p_i - p_j|, (B, H, Tq, Tk)
Tensor alibi_logits(const Tensor& slopes, const AttentionCoordinates& at) {
  const auto distances =
      (at.queries.unsqueeze(-2) - at.keys.unsqueeze(-3)).square().sum(-1);
  // The root has no derivative at 0, where it is not needed either.
  const auto roots = torch::sqrt(distances.clamp_min(1e-30));
  return -(slopes.to(roots.dtype()) * roots.unsqueeze(1));
}

// The softmax of scores, or all of the weight on the best.
Tensor weights_of(const Tensor& scores, bool hard) {
  if (!hard) return torch::softmax(scores, -1);
  return torch::zeros_like(scores).scatter_(
      -1, scores.argmax(-1, /*keepdim=*/true), 1.0);
}

}  // namespace

AttentionBias AttentionBias::visible_prefix(int64_t prefix) {
  AttentionBias bias;
  bias.keys = Keys::kPrefix;
  bias.prefix = prefix;
  return bias;
}

AttentionBias AttentionBias::causal(int64_t prefix, bool sees_itself) {
  AttentionBias bias;
  bias.keys = Keys::kCausal;
  bias.prefix = prefix;
  bias.sees_itself = sees_itself;
  return bias;
}

AttentionBias AttentionBias::windows(int64_t window) {
  AttentionBias bias;
  bias.window = window;
  return bias;
}

AttentionBias AttentionBias::padded(const Tensor& padding) {
  AttentionBias bias;
  bias.padding = padding;
  return bias;
}

AttentionBias AttentionBias::alibi(const Tensor& slopes,
                                   const AttentionCoordinates& at) {
  AttentionBias bias;
  bias.slopes = slopes;
  bias.at = at;
  return bias;
}

AttentionBias AttentionBias::rope(const Tensor& frequencies,
                                  const AttentionCoordinates& at) {
  AttentionBias bias;
  bias.frequencies = frequencies;
  bias.at = at;
  return bias;
}

AttentionBias AttentionBias::greens(const kernels::GreenTerm& green,
                                    const AttentionCoordinates& at) {
  AttentionBias bias;
  bias.green = green;
  bias.at = at;
  return bias;
}

AttentionBias AttentionBias::of(LogitFunction logits,
                                const AttentionCoordinates& at) {
  AttentionBias bias;
  bias.logits = std::move(logits);
  bias.at = at;
  return bias;
}

bool AttentionBias::by_number() const {
  return !padding.defined() && !slopes.defined() && !frequencies.defined() &&
         !green && !logits;
}

Tensor AttentionBias::added(int64_t queries, int64_t key_count,
                            const TensorOptions& options) const {
  Tensor sum;
  const auto add = [&](const Tensor& part) {
    sum = sum.defined() ? sum + part : part;
  };
  const auto add_mask = [&](const Tensor& mask) {
    add(mask.unsqueeze(0).unsqueeze(0));
  };
  if (keys == Keys::kCausal) {
    if (queries != key_count) {
      throw std::invalid_argument(fmt::format(
          "[attention_bias] expected as many queries as keys of a causal one, "
          "got {} and {}",
          queries, key_count));
    }
    add_mask(kernels::causal_mask(queries, prefix, sees_itself, options));
  }
  if (keys == Keys::kPrefix) {
    add_mask(prefix_mask(queries, key_count, prefix, options));
  }
  if (window > 0) add_mask(window_mask(queries, key_count, window, options));
  if (padding.defined()) {
    const auto hidden = padding.unsqueeze(1).unsqueeze(1);  // (B, 1, 1, Tk)
    add(torch::zeros(hidden.sizes(), options).masked_fill(hidden, kHidden));
  }
  if (slopes.defined()) add(alibi_logits(slopes, at));
  if (green) {
    add(kernels::green_logits(*green, at.queries, at.keys, padding)
            .to(options.dtype()));
  }
  if (logits) add(logits(at));
  return sum;
}

Tensor AttentionBias::angles(const Tensor& coordinates) const {
  return torch::matmul(coordinates, frequencies.to(coordinates.dtype()));
}

Tensor alibi_slopes(int64_t heads, double scale) {
  const auto h = torch::arange(1, heads + 1, torch::kFloat64);
  const auto slopes =
      torch::pow(2.0, h * (-8.0 / static_cast<double>(heads))) * scale;
  return slopes.view({heads, 1, 1});
}

Tensor rope_frequencies(int64_t axes, int64_t pairs) {
  auto frequencies = torch::zeros({axes, pairs}, torch::kFloat64);
  const double of_axis =
      std::ceil(static_cast<double>(pairs) / static_cast<double>(axes));
  for (int64_t n = 0; n < pairs; ++n) {
    const auto rank = static_cast<double>(n / axes);
    frequencies[n % axes][n] =
        2 * std::numbers::pi * std::pow(10.0, -rank / of_axis);
  }
  return frequencies;
}

Tensor rotated(const Tensor& x, const Tensor& angles) {
  const auto cos = torch::cos(angles), sin = torch::sin(angles);
  const auto pairs = x.unflatten(-1, {-1, 2});
  const auto a = pairs.select(-1, 0), b = pairs.select(-1, 1);
  return torch::stack({a * cos - b * sin, a * sin + b * cos}, -1).flatten(-2);
}

Tensor attention_weights(const Tensor& q, const Tensor& k,
                         const AttentionBias& bias) {
  const auto added = bias.added(q.size(2), k.size(2), q.options());
  if (!bias.frequencies.defined()) {
    return weights_of(kernels::attention_scores(q, k, added), bias.hard);
  }
  const auto rotate = [&](const Tensor& x, const Tensor& coordinates) {
    return rotated(x, bias.angles(coordinates).unsqueeze(1));
  };
  const auto scores = kernels::attention_scores(rotate(q, bias.at.queries),
                                                rotate(k, bias.at.keys), added);
  return weights_of(scores, bias.hard);
}

Tensor attention_reference(const Tensor& q, const Tensor& k, const Tensor& v,
                           const AttentionBias& bias, const Tensor& factors) {
  auto weights = attention_weights(q, k, bias);
  if (factors.defined()) weights = weights * factors;
  // Autocast widens a softmax.
  return torch::matmul(weights.to(v.scalar_type()), v);
}

}  // namespace propagator::nn
