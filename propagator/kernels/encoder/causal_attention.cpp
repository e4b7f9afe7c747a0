#include "propagator/kernels/encoder/causal_attention.h"

#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "propagator/kernels/cuda.h"
#include "propagator/kernels/encoder/causal_attention_cpu.h"

namespace propagator::kernels {
namespace {

constexpr int64_t kQueries = 64;  // rows of one block

// The keys that the queries [begin, end) see at most.
int64_t keys_seen(int64_t end, int64_t prefix, bool sees_itself) {
  return std::max(prefix, sees_itself ? end : end - 1);
}

// The backward pass through softmax(scale · s) = p, given the gradient by p.
torch::Tensor score_gradient(const torch::Tensor& p, const torch::Tensor& dp,
                             double scale) {
  return p * (dp - (p * dp).sum(-1, /*keepdim=*/true)) * scale;
}

// That of a token that every query sees, (B, H, 1, D).
torch::Tensor origin_of(const torch::Tensor& x, int64_t prefix) {
  return x.narrow(2, std::max<int64_t>(std::min(prefix, x.size(2)), 1) - 1, 1);
}

// Keys or values less that of one token. A softmax and its gradient do not know
// what all keys, or all values, have in common; left in, its rounding becomes a
// gradient.
torch::Tensor apart(const torch::Tensor& x, int64_t prefix) {
  return x - origin_of(x, prefix);
}

// In tensor operations, a block of queries at a time.
struct CausalBlocks : torch::autograd::Function<CausalBlocks> {
  static torch::Tensor forward(torch::autograd::AutogradContext* context,
                               torch::Tensor q, torch::Tensor keys,
                               torch::Tensor values, int64_t prefix,
                               bool sees_itself) {
    const auto k = apart(keys, prefix), v = apart(values, prefix);
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
    out.add_(origin_of(values, prefix));
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
      const auto ds = score_gradient(p, dp, scale);
      dq.slice(2, begin, end).copy_(torch::matmul(ds, k.slice(2, 0, keys)));
      dk.slice(2, 0, keys)
          .add_(torch::matmul(ds.transpose(2, 3), q.slice(2, begin, end)));
    }
    return {dq, dk, dv, torch::Tensor(), torch::Tensor()};
  }
};

// In the CPU's kernel.
struct CausalHeads : torch::autograd::Function<CausalHeads> {
  static torch::Tensor forward(torch::autograd::AutogradContext* context,
                               torch::Tensor q, torch::Tensor k,
                               torch::Tensor v, int64_t prefix,
                               bool sees_itself) {
    const auto forward = causal_attention_cpu({q, k, v, prefix, sees_itself});
    context->save_for_backward({q, k, v, forward.log_sum});
    context->saved_data["prefix"] = prefix;
    context->saved_data["sees_itself"] = sees_itself;
    return forward.out;
  }

  static torch::autograd::variable_list backward(
      torch::autograd::AutogradContext* context,
      torch::autograd::variable_list upstream) {
    const auto saved = context->get_saved_variables();
    const auto d = causal_attention_backward_cpu(
        upstream[0],
        {saved[0], saved[1], saved[2], context->saved_data["prefix"].toInt(),
         context->saved_data["sees_itself"].toBool()},
        saved[3]);
    return {d.q, d.k, d.v, torch::Tensor(), torch::Tensor()};
  }
};

// (B, T, 3 C) → queries, keys, values, each (B, H, T, D).
std::array<torch::Tensor, 3> unpack(const torch::Tensor& qkv, int64_t heads) {
  const auto parts = qkv.view({qkv.size(0), qkv.size(1), 3, heads, -1});
  const auto part = [&](int64_t n) {
    return parts.select(2, n).transpose(1, 2);
  };
  return {part(0), part(1), part(2)};
}

// (B, H, T, D) → (B, T, C).
torch::Tensor pack(const torch::Tensor& x) {
  return x.transpose(1, 2).flatten(2).contiguous();
}

torch::Tensor causal_scores(const torch::Tensor& q, const torch::Tensor& k,
                            int64_t prefix, bool sees_itself) {
  return attention_scores(
      q, k, causal_mask(q.size(2), prefix, sees_itself, q.options()));
}

}  // namespace

bool packed_attention_is_fused(const torch::Tensor& x, int64_t heads) {
  if (!x.is_cuda()) return has_causal_attention_cpu(x);
  return x.scalar_type() == torch::kFloat32 &&
         causal_attention_cuda_has_depth(x.size(-1) / heads);
}

PackedAttention packed_causal_attention(const torch::Tensor& qkv, int64_t heads,
                                        int64_t prefix, bool sees_itself) {
  const bool fused =
      packed_attention_is_fused(qkv.narrow(2, 0, qkv.size(2) / 3), heads);
  if (fused && qkv.is_cuda()) {
    return packed_causal_attention_cuda(qkv, heads, prefix, sees_itself);
  }
  const auto [q, k, v] = unpack(qkv, heads);
  if (fused) {
    const auto [out, log_sum] =
        causal_attention_cpu({q, k, v, prefix, sees_itself});
    return {pack(out), log_sum};
  }
  const auto scores = causal_scores(q, apart(k, prefix), prefix, sees_itself);
  const auto mean = torch::matmul(torch::softmax(scores, -1), apart(v, prefix));
  return {pack(mean + origin_of(v, prefix)), torch::logsumexp(scores, -1)};
}

torch::Tensor packed_causal_attention_backward(const torch::Tensor& grad,
                                               const torch::Tensor& qkv,
                                               const PackedAttention& forward,
                                               int64_t heads, int64_t prefix,
                                               bool sees_itself) {
  const bool fused = packed_attention_is_fused(grad, heads);
  if (fused && grad.is_cuda()) {
    return packed_causal_attention_backward_cuda(grad, qkv, forward, heads,
                                                 prefix, sees_itself);
  }
  const auto [q, all_keys, all_values] = unpack(qkv, heads);
  const auto g =
      grad.view({grad.size(0), grad.size(1), heads, -1}).transpose(1, 2);
  if (fused) {
    return causal_attention_backward_cpu(
               g, {q, all_keys, all_values, prefix, sees_itself},
               forward.log_sum)
        .packed.flatten(2);
  }
  const auto k = apart(all_keys, prefix), v = apart(all_values, prefix);
  const double scale = 1 / std::sqrt(static_cast<double>(q.size(3)));
  const auto p = torch::exp(causal_scores(q, k, prefix, sees_itself) -
                            forward.log_sum.unsqueeze(-1));
  const auto ds = score_gradient(p, torch::matmul(g, v.transpose(2, 3)), scale);
  return torch::cat(
      {pack(torch::matmul(ds, k)), pack(torch::matmul(ds.transpose(2, 3), q)),
       pack(torch::matmul(p.transpose(2, 3), g))},
      2);
}

torch::Tensor causal_attention(const torch::Tensor& q, const torch::Tensor& k,
                               const torch::Tensor& v, int64_t prefix,
                               bool sees_itself) {
  const auto type = q.scalar_type();
  const bool fused = has_causal_attention_cpu(q) && k.scalar_type() == type &&
                     v.scalar_type() == type;
  return fused ? CausalHeads::apply(q, k, v, prefix, sees_itself)
               : CausalBlocks::apply(q, k, v, prefix, sees_itself);
}

torch::Tensor attention_scores(const torch::Tensor& q, const torch::Tensor& k,
                               const torch::Tensor& mask) {
  const double scale = 1 / std::sqrt(static_cast<double>(q.size(3)));
  const auto scores = torch::matmul(q * scale, k.transpose(2, 3));
  return mask.defined() ? scores + mask : scores;
}

torch::Tensor masked_attention(const torch::Tensor& q, const torch::Tensor& k,
                               const torch::Tensor& v,
                               const torch::Tensor& mask) {
  return torch::matmul(torch::softmax(attention_scores(q, k, mask), -1), v);
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
