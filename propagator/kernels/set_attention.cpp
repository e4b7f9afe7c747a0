#include "propagator/kernels/set_attention.h"

#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>

#include <array>
#include <cmath>
#include <limits>

#include "propagator/kernels/set_attention_head.h"

namespace propagator::kernels {
namespace {

using torch::Tensor;

// Above it a head's products are large enough for a product library.
constexpr int64_t kLargestSet = 48;
constexpr int64_t kSetsAtOnce = 16;

// Calls `work(head, offset into (B, Q, C), offset into (B, T, 3 C), room)` for
// every head of every set, on all threads.
template <class Real, int64_t kDepth, class Work>
void for_heads(const SetShape& s, const torch::autograd::variable_list& given,
               Work&& work) {
  const auto &qkv = given[0], &padding = given[1], &factors = given[2];
  const Real* data = qkv.data_ptr<Real>();
  const bool* hidden = padding.numel() > 0 ? padding.data_ptr<bool>() : nullptr;
  const Real* times = factors.numel() > 0 ? factors.data_ptr<Real>() : nullptr;
  at::parallel_for(0, s.sets, kSetsAtOnce, [&](int64_t begin, int64_t end) {
    SetRoom<Real> room(s);
    for (int64_t b = begin; b < end; ++b) {
      for (int64_t h = 0; h < s.heads; ++h) {
        const int64_t in = b * s.tokens * s.row() + h * s.depth();
        const int64_t out = b * s.wanted * s.width + h * s.depth();
        const int64_t square = (b * s.heads + h) * s.wanted * s.tokens;
        const SetHead<Real, kDepth> head{
            s, data + in, hidden == nullptr ? nullptr : hidden + b * s.tokens,
            times == nullptr ? nullptr : times + square};
        work(head, out, in, room);
      }
    }
  });
}

template <class Real, class Work>
void for_heads(const SetShape& s, const torch::autograd::variable_list& given,
               Work&& work) {
  switch (s.depth()) {
    case 8:
      return for_heads<Real, 8>(s, given, work);
    case 16:
      return for_heads<Real, 16>(s, given, work);
    default:
      return for_heads<Real, 0>(s, given, work);
  }
}

class SetAttention : public torch::autograd::Function<SetAttention> {
 public:
  static Tensor forward(torch::autograd::AutogradContext* context,
                        const Tensor& qkv, const Tensor& padding,
                        const Tensor& factors, int64_t heads, int64_t wanted) {
    const torch::autograd::variable_list given{qkv.contiguous(), padding,
                                               factors};
    context->save_for_backward(given);
    context->saved_data["heads"] = heads;
    context->saved_data["wanted"] = wanted;
    const SetShape s{qkv.size(0), qkv.size(1), qkv.size(2) / 3, heads, wanted};
    auto out = torch::empty({s.sets, wanted, s.width}, qkv.options());
    AT_DISPATCH_FLOATING_TYPES(qkv.scalar_type(), "set_attention", [&] {
      auto* to = out.data_ptr<scalar_t>();
      for_heads<scalar_t>(
          s, given, [&](const auto& head, int64_t at, int64_t, auto& room) {
            head.forward(to + at, room);
          });
    });
    return out;
  }

  static torch::autograd::variable_list backward(
      torch::autograd::AutogradContext* context,
      torch::autograd::variable_list gradients) {
    const auto saved = context->get_saved_variables();
    const auto& qkv = saved[0];
    const SetShape s{qkv.size(0), qkv.size(1), qkv.size(2) / 3,
                     context->saved_data["heads"].toInt(),
                     context->saved_data["wanted"].toInt()};
    const auto grad = gradients[0].contiguous();
    auto d_qkv = torch::zeros_like(qkv);
    AT_DISPATCH_FLOATING_TYPES(qkv.scalar_type(), "set_attention", [&] {
      const auto* from = grad.data_ptr<scalar_t>();
      auto* to = d_qkv.data_ptr<scalar_t>();
      for_heads<scalar_t>(
          s, saved, [&](const auto& head, int64_t at, int64_t in, auto& room) {
            head.backward(from + at, to + in, room);
          });
    });
    return {d_qkv, Tensor(), Tensor(), Tensor(), Tensor()};
  }
};

// Queries of the first Q tokens, keys, values: (B, H, Q or T, D).
std::array<Tensor, 3> unpack(const Tensor& qkv, const SetAttentionOptions& o) {
  const auto parts = qkv.view({qkv.size(0), qkv.size(1), 3, o.heads, -1});
  const auto part = [&](int64_t n) {
    return parts.select(2, n).transpose(1, 2);
  };
  return {part(0).narrow(2, 0, o.wanted), part(1), part(2)};
}

Tensor weights_of(const Tensor& q, const Tensor& k, const Tensor& padding) {
  const double scale = 1 / std::sqrt(static_cast<double>(q.size(3)));
  auto scores = torch::matmul(q * scale, k.transpose(2, 3));
  if (padding.defined()) {
    scores = scores.masked_fill(padding.unsqueeze(1).unsqueeze(1),
                                -std::numeric_limits<double>::infinity());
  }
  return torch::softmax(scores, -1);
}

}  // namespace

Tensor set_attention_reference(const Tensor& qkv,
                               const SetAttentionOptions& o) {
  const auto [q, k, v] = unpack(qkv, o);
  auto weights = weights_of(q, k, o.padding);
  if (o.factors.defined()) weights = weights * o.factors;
  return torch::matmul(weights.to(v.scalar_type()), v)
      .transpose(1, 2)
      .flatten(2);
}

Tensor set_attention_weights(const Tensor& qkv, const SetAttentionOptions& o) {
  const auto [q, k, v] = unpack(qkv, o);
  return weights_of(q, k, o.padding);
}

bool has_set_attention(const Tensor& qkv) {
  const auto type = qkv.scalar_type();
  return qkv.is_cpu() && qkv.size(1) <= kLargestSet &&
         (type == torch::kFloat32 || type == torch::kFloat64);
}

Tensor set_attention(const Tensor& qkv, const SetAttentionOptions& o) {
  if (!has_set_attention(qkv)) return set_attention_reference(qkv, o);
  // Autograd takes no undefined tensor.
  const auto given = [&](const Tensor& x) {
    return x.defined() ? x.contiguous() : torch::empty({0}, qkv.options());
  };
  return SetAttention::apply(qkv, given(o.padding), given(o.factors), o.heads,
                             o.wanted);
}

}  // namespace propagator::kernels
