#include "propagator/kernels/causal_attention.h"

#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace propagator::kernels {
namespace {

constexpr int64_t kQueries = 64;  // rows of one block

// The keys that the queries [begin, end) see at most.
int64_t keys_seen(int64_t end, int64_t prefix, bool sees_itself) {
  return std::max(prefix, sees_itself ? end : end - 1);
}

struct CausalAttention : torch::autograd::Function<CausalAttention> {
  static torch::Tensor forward(torch::autograd::AutogradContext* context,
                               torch::Tensor q, torch::Tensor k,
                               torch::Tensor v, int64_t prefix,
                               bool sees_itself) {
    const int64_t tokens = q.size(2);
    const double scale = 1 / std::sqrt(static_cast<double>(q.size(3)));
    const auto mask = causal_mask(tokens, prefix, sees_itself, q.options());
    auto out = torch::empty_like(v);
    torch::autograd::variable_list saved{q, k, v};
    for (int64_t begin = 0; begin < tokens; begin += kQueries) {
      const int64_t end = std::min(begin + kQueries, tokens);
      const int64_t keys = keys_seen(end, prefix, sees_itself);
      auto p = torch::matmul(q.slice(2, begin, end) * scale,
                             k.slice(2, 0, keys).transpose(2, 3));
      p.add_(mask.slice(0, begin, end).slice(1, 0, keys));
      p = torch::softmax(p, -1).to(v.scalar_type());  // autocast widens it
      out.slice(2, begin, end).copy_(torch::matmul(p, v.slice(2, 0, keys)));
      saved.push_back(p);
    }
    context->save_for_backward(saved);
    context->saved_data["prefix"] = prefix;
    context->saved_data["sees_itself"] = sees_itself;
    return out;
  }

  static torch::autograd::variable_list backward(
      torch::autograd::AutogradContext* context,
      torch::autograd::variable_list upstream) {
    const auto saved = context->get_saved_variables();
    const auto &q = saved[0], &k = saved[1], &v = saved[2];
    const int64_t prefix = context->saved_data["prefix"].toInt();
    const bool sees_itself = context->saved_data["sees_itself"].toBool();
    const int64_t tokens = q.size(2);
    const double scale = 1 / std::sqrt(static_cast<double>(q.size(3)));
    const auto grad = upstream[0].contiguous();
    auto dq = torch::empty_like(q);
    auto dk = torch::zeros_like(k), dv = torch::zeros_like(v);
    size_t block = 3;
    for (int64_t begin = 0; begin < tokens; begin += kQueries, ++block) {
      const int64_t end = std::min(begin + kQueries, tokens);
      const int64_t keys = keys_seen(end, prefix, sees_itself);
      const auto& p = saved[block];
      const auto g = grad.slice(2, begin, end);
      dv.slice(2, 0, keys).add_(torch::matmul(p.transpose(2, 3), g));
      const auto dp = torch::matmul(g, v.slice(2, 0, keys).transpose(2, 3));
      const auto ds = p * (dp - (dp * p).sum(-1, /*keepdim=*/true)) * scale;
      dq.slice(2, begin, end).copy_(torch::matmul(ds, k.slice(2, 0, keys)));
      dk.slice(2, 0, keys)
          .add_(torch::matmul(ds.transpose(2, 3), q.slice(2, begin, end)));
    }
    return {dq, dk, dv, torch::Tensor(), torch::Tensor()};
  }
};

}  // namespace

torch::Tensor causal_attention(const torch::Tensor& q, const torch::Tensor& k,
                               const torch::Tensor& v, int64_t prefix,
                               bool sees_itself) {
  return CausalAttention::apply(q, k, v, prefix, sees_itself);
}

torch::Tensor masked_attention(const torch::Tensor& q, const torch::Tensor& k,
                               const torch::Tensor& v,
                               const torch::Tensor& mask) {
  const double scale = 1 / std::sqrt(static_cast<double>(q.size(3)));
  const auto scores = torch::matmul(q * scale, k.transpose(2, 3)) + mask;
  return torch::matmul(torch::softmax(scores, -1), v);
}

torch::Tensor causal_mask(int64_t tokens, int64_t prefix, bool sees_itself,
                          const torch::TensorOptions& options) {
  auto mask = torch::full({tokens, tokens},
                          -std::numeric_limits<double>::infinity(), options)
                  .triu(sees_itself ? 1 : 0);
  mask.slice(1, 0, prefix).zero_();
  return mask;
}

}  // namespace propagator::kernels
