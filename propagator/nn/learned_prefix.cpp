#include "propagator/nn/learned_prefix.h"

#include <torch/types.h>
#include <torch/utils.h>

#include <cmath>

#include "propagator/core/random.h"
#include "propagator/nn/cross_attention.h"

namespace propagator::nn {

using autodiff::Jet;
using torch::Tensor;

LearnedPrefixImpl::LearnedPrefixImpl(int64_t width, int64_t heads,
                                     int64_t tokens)
    : heads_(heads),
      keys_(register_parameter("keys", torch::zeros({tokens, width}))),
      values_(register_parameter("values", torch::zeros({tokens, width}))),
      gates_(register_parameter("gates", torch::zeros({heads}))) {}

Tensor LearnedPrefixImpl::forward(const Tensor& queries) {
  const auto by_head = [&](const Tensor& x) {  // (H, P, D)
    return x.view({x.size(0), heads_, -1}).transpose(0, 1);
  };
  const double scale = 1 / std::sqrt(static_cast<double>(queries.size(-1)));
  const auto weights = torch::softmax(
      torch::matmul(queries * scale, by_head(keys_).transpose(1, 2)), -1);
  return torch::matmul(
      weights, by_head(values_) * torch::tanh(gates_).view({heads_, 1, 1}));
}

Jet LearnedPrefixImpl::forward(const Jet& queries) {
  const int64_t width = keys_.size(1);
  const auto gates = torch::tanh(gates_)
                         .unsqueeze(1)
                         .expand({heads_, width / heads_})
                         .reshape({width});
  const auto shape = queries.rows().sizes().vec();
  const auto rows = queries.linear([&](const Tensor& all) {
    return all.reshape({shape.front(), -1, width});
  });
  return cross_attention(rows, keys_, values_ * gates, heads_)
      .linear([&](const Tensor& all) { return all.view(shape); });
}

void LearnedPrefixImpl::reset(int64_t seed, const std::string& path) {
  const torch::NoGradGuard no_grad;
  for (auto* drawn : {&keys_, &values_}) {
    const auto* name = drawn == &keys_ ? ".keys" : ".values";
    drawn->copy_(RandomStream(seed, "init/" + path + name)
                     .uniform(drawn->sizes(), -1, 1, drawn->scalar_type()));
  }
  gates_.zero_();
}

}  // namespace propagator::nn
