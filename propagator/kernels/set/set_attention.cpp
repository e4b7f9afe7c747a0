#include "propagator/kernels/set/set_attention.h"

#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>
#include <ATen/record_function.h>
#include <torch/csrc/autograd/custom_function.h>

#include <array>
#include <cmath>
#include <limits>

#include "propagator/kernels/set/set_attention_head.h"

namespace propagator::kernels {
namespace {

using torch::Tensor;

// Above it a head's products are large enough for a product library.
constexpr int64_t kLargestSet = 48;
constexpr int64_t kSetsAtOnce = 16;

// Calls `work(head, offset into (B, Q, C), offset into (B, T, 3 C), room)` for
// every head of every set, on all threads.
template <class Real, class Work>
void for_heads(const torch::autograd::variable_list& given, int64_t heads,
               int64_t wanted, Work&& work) {
  const auto &qkv = given[0], &padding = given[1], &factors = given[2];
  const int64_t sets = qkv.size(0), tokens = qkv.size(1), row = qkv.size(2);
  const int64_t width = row / 3, depth = width / heads;
  const Real* data = qkv.data_ptr<Real>();
  const bool* hidden = padding.numel() > 0 ? padding.data_ptr<bool>() : nullptr;
  const Real* times = factors.numel() > 0 ? factors.data_ptr<Real>() : nullptr;
  at::parallel_for(0, sets, kSetsAtOnce, [&](int64_t begin, int64_t end) {
    SetRoom<Real> room(tokens, depth);
    std::vector<Real> weights(room.factored.size());
    for (int64_t b = begin; b < end; ++b) {
      for (int64_t h = 0; h < heads; ++h) {
        const int64_t in = b * tokens * row + h * depth;
        const int64_t out = b * wanted * width + h * depth;
        const int64_t square = (b * heads + h) * wanted * tokens;
        const SetHead<Real> head{
            .wanted = wanted,
            .tokens = tokens,
            .depth = depth,
            .query = data + in,
            .query_row = row,
            .key = data + in + width,
            .value = data + in + 2 * width,
            .key_row = row,
            .padding = hidden == nullptr ? nullptr : hidden + b * tokens,
            .factors = times == nullptr ? nullptr : times + square,
            .factors_row = tokens};
        head.softmax(weights.data(), room);
        work(head, weights.data(), out, in, room);
      }
    }
  });
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
    const int64_t width = qkv.size(2) / 3;
    auto out = torch::empty({qkv.size(0), wanted, width}, qkv.options());
    AT_DISPATCH_FLOATING_TYPES(qkv.scalar_type(), "set_attention", [&] {
      auto* to = out.data_ptr<scalar_t>();
      for_heads<scalar_t>(
          given, heads, wanted,
          [&](const auto& head, const scalar_t* weights, int64_t at, int64_t,
              auto& room) { head.mix(weights, to + at, width, room); });
    });
    return out;
  }

  static torch::autograd::variable_list backward(
      torch::autograd::AutogradContext* context,
      torch::autograd::variable_list gradients) {
    const auto saved = context->get_saved_variables();
    const auto& qkv = saved[0];
    const int64_t width = qkv.size(2) / 3;
    const auto grad = gradients[0].contiguous();
    auto d_qkv = torch::zeros_like(qkv);
    AT_DISPATCH_FLOATING_TYPES(qkv.scalar_type(), "set_attention", [&] {
      const auto* from = grad.data_ptr<scalar_t>();
      auto* to = d_qkv.data_ptr<scalar_t>();
      for_heads<scalar_t>(saved, context->saved_data["heads"].toInt(),
                          context->saved_data["wanted"].toInt(),
                          [&](const auto& head, const scalar_t* weights,
                              int64_t at, int64_t in, auto& room) {
                            head.backward(weights, from + at, width, to + in,
                                          to + in + width, to + in + 2 * width,
                                          room);
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

bool has_set_attention(const Tensor& qkv, int64_t heads) {
  const auto type = qkv.scalar_type();
  if (!qkv.is_cpu() || qkv.size(1) > kLargestSet) return false;
  const int64_t depth = qkv.size(2) / 3 / heads;
  return (type == torch::kFloat32 && depth % Lanes<float>::kWidth == 0) ||
         (type == torch::kFloat64 && depth % Lanes<double>::kWidth == 0);
}

Tensor set_attention(const Tensor& qkv, const SetAttentionOptions& o) {
  RECORD_FUNCTION("propagator::set_attention",
                  c10::ArrayRef<const c10::IValue>({qkv}));
  if (!has_set_attention(qkv, o.heads)) return set_attention_reference(qkv, o);
  // Autograd takes no undefined tensor.
  const auto given = [&](const Tensor& x) {
    return x.defined() ? x.contiguous() : torch::empty({0}, qkv.options());
  };
  return SetAttention::apply(qkv, given(o.padding), given(o.factors), o.heads,
                             o.wanted);
}

}  // namespace propagator::kernels
