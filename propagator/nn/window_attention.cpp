#include "propagator/nn/window_attention.h"

#include <cmath>
#include <numbers>

#include "propagator/kernels/jet/jet_attention.h"
#include "propagator/nn/wavelet_mlp.h"

namespace propagator::nn {
namespace {

using autodiff::Jet;
using torch::Tensor;

Tensor alibi_slopes(int64_t heads) {
  const auto h = torch::arange(1, heads + 1, torch::kFloat64);
  return torch::pow(2.0, h * (-8.0 / static_cast<double>(heads)))
      .view({heads, 1, 1});
}

// Pair n of the D/2 belongs to axis n mod A.
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

}  // namespace

WindowAttentionImpl::WindowAttentionImpl(const WindowAttentionOptions& options)
    : options_(options),
      query_(register_module("query",
                             torch::nn::Linear(options.width, options.width))),
      key_value_(register_module(
          "key_value", torch::nn::Linear(options.width, 2 * options.width))),
      output_(register_module(
          "output", torch::nn::Linear(options.width, options.width))) {
  const int64_t depth = options.width / options.heads;
  if (options.position == RelativePosition::kAlibi) {
    slopes_ = register_buffer("slopes", alibi_slopes(options.heads));
  }
  if (options.position == RelativePosition::kRope) {
    frequencies_ = register_buffer("frequencies",
                                   rope_frequencies(options.axes, depth / 2));
  }
}

Jet WindowAttentionImpl::heads_of(const Jet& x) const {
  const auto& rows = x.rows();
  return x.linear([&](const Tensor& all) {
    return all
        .view({rows.size(0), rows.size(1), rows.size(2), options_.heads, -1})
        .transpose(2, 3);
  });
}

Jet WindowAttentionImpl::turned(const Jet& x, const Tensor& angles) const {
  const auto cos = torch::cos(angles), sin = torch::sin(angles);
  return x.linear([&](const Tensor& all) {
    const auto pairs = all.unflatten(-1, {options_.heads, -1, 2});
    const auto a = pairs.select(-1, 0), b = pairs.select(-1, 1);
    return torch::stack({a * cos - b * sin, a * sin + b * cos}, -1).flatten(-3);
  });
}

Tensor WindowAttentionImpl::bias_of(const WindowPlaces& where) const {
  if (!slopes_.defined()) return {};
  const auto distances =
      (where.places.unsqueeze(-2) - where.places.unsqueeze(-3))
          .square()
          .sum(-1);  // (N, T, T)
  // The root has no derivative at 0, where it is not needed either.
  const auto roots = torch::sqrt(distances.clamp_min(1e-30));
  return -(slopes_.to(roots.dtype()) * roots.unsqueeze(1));
}

Jet WindowAttentionImpl::forward(const Jet& x, const Jet& source,
                                 const WindowPlaces& where) {
  auto query = apply_linear(query_, x);
  auto both = apply_linear(key_value_, source);
  if (frequencies_.defined()) {
    const auto angles =  // (N, T, 1, D / 2)
        torch::matmul(where.places, frequencies_.to(where.places.dtype()))
            .unsqueeze(2);
    query = turned(query, angles);
    both = autodiff::cat({turned(narrow(both, -1, 0, options_.width), angles),
                          narrow(both, -1, options_.width, options_.width)},
                         -1);
  }
  const auto bias = bias_of(where);
  const auto orders = query.layout().orders();
  if (!allows_kernels(query) ||
      !kernels::has_jet_attention(query.rows(), options_.heads, orders)) {
    return apply_linear(output_, mix(query, both, bias));
  }
  const auto mixed = kernels::jet_attention(query.rows(), both.rows(), bias,
                                            options_.heads, orders);
  return apply_linear(output_, Jet(mixed, query.layout()));
}

Jet WindowAttentionImpl::mix(const Jet& query, const Jet& both,
                             const Tensor& bias) const {
  const auto q = heads_of(query);
  const auto k = heads_of(narrow(both, -1, 0, options_.width));
  const auto v = heads_of(narrow(both, -1, options_.width, options_.width));
  const double scale = 1 / std::sqrt(static_cast<double>(q.rows().size(-1)));
  auto scores =
      matmul(q * scale,
             k.linear([](const Tensor& all) { return all.transpose(-2, -1); }));
  if (bias.defined()) scores = scores + bias;
  const auto mixed = matmul(softmax(scores), v);  // (M; N, H, T, D)
  return mixed.linear(
      [](const Tensor& all) { return all.transpose(2, 3).flatten(-2); });
}

}  // namespace propagator::nn
