#include "propagator/nn/window_attention.h"

#include <cmath>

#include "propagator/kernels/jet/jet_attention.h"
#include "propagator/nn/attention_kernel.h"
#include "propagator/nn/wavelet_mlp.h"

namespace propagator::nn {
namespace {

using autodiff::Jet;
using torch::Tensor;

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

Jet WindowAttentionImpl::rotated_heads(const Jet& x,
                                       const Tensor& angles) const {
  return x.linear([&](const Tensor& all) {
    return rotated(all.unflatten(-1, {options_.heads, -1}), angles).flatten(-2);
  });
}

AttentionBias WindowAttentionImpl::bias_of(const WindowPlaces& where) const {
  const AttentionCoordinates at{where.places, where.places};
  auto bias = AttentionBias::alibi(slopes_, at);
  bias.frequencies = frequencies_;
  return bias;
}

Jet WindowAttentionImpl::forward(const Jet& x, const Jet& source,
                                 const WindowPlaces& where) {
  return attend(x, source, bias_of(where));
}

Jet WindowAttentionImpl::attend(const Jet& x, const Jet& source,
                                const AttentionBias& bias) {
  auto query = apply_linear(query_, x);
  const auto answer = [&, asked = query](const Jet& mixed) {
    return apply_linear(
        output_, prefix_.is_empty() ? mixed : mixed + prefix_->forward(asked));
  };
  auto both = apply_linear(key_value_, source);
  if (bias.frequencies.defined()) {
    const auto angles = [&](const Tensor& coordinates) {  // (N, T, 1, D / 2)
      return bias.angles(coordinates).unsqueeze(2);
    };
    const int64_t width = options_.width;
    query = rotated_heads(query, angles(bias.at.queries));
    both = autodiff::cat(
        {rotated_heads(narrow(both, -1, 0, width), angles(bias.at.keys)),
         narrow(both, -1, width, width)},
        -1);
  }
  const auto orders = query.layout().orders();
  AttentionCase asked{.form = AttentionCase::Form::kWindows,
                      .x = query.rows(),
                      .heads = options_.heads};
  if (allows_kernels(query)) asked.orders = orders;
  const int64_t tokens = query.rows().size(2);
  auto added = bias.added(tokens, tokens, query.rows().options());
  if (choose_attention_kernel(bias, asked) != AttentionKernel::kJet) {
    return answer(mix(query, both, added));
  }
  if (added.defined()) {
    added =
        added.expand({query.rows().size(1), options_.heads, tokens, tokens});
  }
  const auto mixed = kernels::jet_attention(query.rows(), both.rows(), added,
                                            options_.heads, orders);
  return answer(Jet(mixed, query.layout()));
}

void WindowAttentionImpl::add_prefix(int64_t tokens) {
  prefix_ = register_module(
      kPrefixName, LearnedPrefix(options_.width, options_.heads, tokens));
}

Jet WindowAttentionImpl::mix(const Jet& query, const Jet& both,
                             const Tensor& added) const {
  const auto q = heads_of(query);
  const auto k = heads_of(narrow(both, -1, 0, options_.width));
  const auto v = heads_of(narrow(both, -1, options_.width, options_.width));
  const double scale = 1 / std::sqrt(static_cast<double>(q.rows().size(-1)));
  auto scores =
      matmul(q * scale,
             k.linear([](const Tensor& all) { return all.transpose(-2, -1); }));
  if (added.defined()) scores = scores + added;
  const auto mixed = matmul(softmax(scores), v);  // (M; N, H, T, D)
  return mixed.linear(
      [](const Tensor& all) { return all.transpose(2, 3).flatten(-2); });
}

}  // namespace propagator::nn
