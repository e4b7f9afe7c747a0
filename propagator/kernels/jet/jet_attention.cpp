#include "propagator/kernels/jet/jet_attention.h"

#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "propagator/kernels/cuda.h"
#include "propagator/kernels/jet/jet_softmax.h"

namespace propagator::kernels {
namespace {

using torch::Tensor;

struct Shape {
  int64_t windows, tokens, width, heads;
  JetOrders orders;
  int64_t depth() const { return width / heads; }
  int64_t squares() const { return tokens * tokens; }
};

// Where the tokens of one window and head lie: token t of row m begins at
// data + m · row + t · step.
template <class Real>
struct Slice {
  Real* data;
  int64_t row, step;
  Real* at(int64_t m, int64_t t) const { return data + m * row + t * step; }
};

template <class Real>
Real dot(const Real* a, const Real* b, int64_t n) {
  // Four sums side by side, so that the loop vectorises.
  Real sum[4] = {};
  int64_t i = 0;
  for (; i + 4 <= n; i += 4) {
    for (int64_t l = 0; l < 4; ++l) sum[l] += a[i + l] * b[i + l];
  }
  Real rest = 0;
  for (; i < n; ++i) rest += a[i] * b[i];
  return (sum[0] + sum[1]) + (sum[2] + sum[3]) + rest;
}

template <class Real>
void add(Real factor, const Real* x, Real* y, int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] += factor * x[i];
}

// The matrices (T, T) of one window and head, for each row of the jet: scores,
// then weights, and their gradients.
template <class Real>
class Weights {
 public:
  explicit Weights(const Shape& s)
      : s_(s),
        scores_(static_cast<size_t>(s.orders.rows() * s.squares())),
        weights_(scores_.size()),
        gradient_(scores_.size()) {}

  Real* score(int64_t m) { return &scores_[offset(m)]; }
  Real* weight(int64_t m) { return &weights_[offset(m)]; }
  Real* gradient(int64_t m) { return &gradient_[offset(m)]; }

  void compute(const Slice<const Real>& q, const Slice<const Real>& k,
               const Real* bias) {
    const int64_t t = s_.tokens;
    const Real scale = 1 / std::sqrt(static_cast<Real>(s_.depth()));
    std::fill(scores_.begin(), scores_.end(), Real(0));
    for_products(s_.orders, [&](int64_t a, int64_t b, int64_t to, int sign) {
      Real* out = score(to);
      const Real factor = scale * static_cast<Real>(sign);
      for (int64_t i = 0; i < t; ++i) {
        for (int64_t j = 0; j < t; ++j) {
          out[i * t + j] += factor * dot(q.at(a, i), k.at(b, j), s_.depth());
        }
      }
    });
    if (bias != nullptr) add(Real(1), bias, score(0), s_.squares());
    for (int64_t i = 0; i < t; ++i) {
      jet_softmax(score(0) + i * t, weight(0) + i * t, s_.squares(), t,
                  s_.orders);
    }
  }

  // From gradient(m) by the weights to gradient(m) by the scores.
  void backward() {
    const int64_t t = s_.tokens;
    for (int64_t i = 0; i < t; ++i) {
      jet_softmax_backward(score(0) + i * t, weight(0) + i * t,
                           gradient(0) + i * t, s_.squares(), t, s_.orders);
    }
  }

 private:
  size_t offset(int64_t m) const {
    return static_cast<size_t>(m * s_.squares());
  }

  Shape s_;
  std::vector<Real> scores_, weights_, gradient_;
};

template <class Real, class Data>
Slice<Real> slice(Data* data, const Shape& s, int64_t window, int64_t head,
                  int64_t step, int64_t offset) {
  return {data + window * s.tokens * step + offset + head * s.depth(),
          s.windows * s.tokens * step, step};
}

// Calls `work(window, head, weights)` for all of them, on all threads.
template <class Real, class Work>
void for_heads(const Shape& s, Work&& work) {
  at::parallel_for(0, s.windows, 16, [&](int64_t begin, int64_t end) {
    Weights<Real> weights(s);
    for (int64_t n = begin; n < end; ++n) {
      for (int64_t h = 0; h < s.heads; ++h) work(n, h, weights);
    }
  });
}

template <class Real>
const Real* bias_of(const Tensor& bias, const Shape& s, int64_t n, int64_t h) {
  return bias.numel() > 0
             ? bias.data_ptr<Real>() + (n * s.heads + h) * s.squares()
             : nullptr;
}

template <class Real>
void forward_all(const Tensor& q, const Tensor& kv, const Tensor& bias,
                 const Shape& s, Tensor& out) {
  const int64_t c = s.width, t = s.tokens, d = s.depth();
  const Real* pq = q.data_ptr<Real>();
  const Real* pkv = kv.data_ptr<Real>();
  Real* po = out.data_ptr<Real>();
  for_heads<Real>(s, [&](int64_t n, int64_t h, Weights<Real>& w) {
    const auto query = slice<const Real>(pq, s, n, h, c, 0);
    const auto key = slice<const Real>(pkv, s, n, h, 2 * c, 0);
    const auto value = slice<const Real>(pkv, s, n, h, 2 * c, c);
    const auto answer = slice<Real>(po, s, n, h, c, 0);
    w.compute(query, key, bias_of<Real>(bias, s, n, h));
    for_products(s.orders, [&](int64_t a, int64_t b, int64_t to, int sign) {
      const Real factor = static_cast<Real>(sign);
      for (int64_t i = 0; i < t; ++i) {
        for (int64_t j = 0; j < t; ++j) {
          add(factor * w.weight(a)[i * t + j], value.at(b, j), answer.at(to, i),
              d);
        }
      }
    });
  });
}

template <class Real>
void backward_all(const Tensor& q, const Tensor& kv, const Tensor& bias,
                  const Tensor& grad, const Shape& s, Tensor& dq, Tensor& dkv) {
  const int64_t c = s.width, t = s.tokens, d = s.depth();
  const Real scale = 1 / std::sqrt(static_cast<Real>(d));
  const Real* pq = q.data_ptr<Real>();
  const Real* pkv = kv.data_ptr<Real>();
  const Real* pg = grad.data_ptr<Real>();
  Real* pdq = dq.data_ptr<Real>();
  Real* pdkv = dkv.data_ptr<Real>();
  for_heads<Real>(s, [&](int64_t n, int64_t h, Weights<Real>& w) {
    const auto query = slice<const Real>(pq, s, n, h, c, 0);
    const auto key = slice<const Real>(pkv, s, n, h, 2 * c, 0);
    const auto value = slice<const Real>(pkv, s, n, h, 2 * c, c);
    const auto given = slice<const Real>(pg, s, n, h, c, 0);
    const auto d_query = slice<Real>(pdq, s, n, h, c, 0);
    const auto d_key = slice<Real>(pdkv, s, n, h, 2 * c, 0);
    const auto d_value = slice<Real>(pdkv, s, n, h, 2 * c, c);
    w.compute(query, key, bias_of<Real>(bias, s, n, h));
    std::fill_n(w.gradient(0), s.orders.rows() * s.squares(), Real(0));
    for_products(s.orders, [&](int64_t a, int64_t b, int64_t to, int sign) {
      const Real factor = static_cast<Real>(sign);
      for (int64_t i = 0; i < t; ++i) {
        for (int64_t j = 0; j < t; ++j) {
          w.gradient(a)[i * t + j] +=
              factor * dot(given.at(to, i), value.at(b, j), d);
          add(factor * w.weight(a)[i * t + j], given.at(to, i),
              d_value.at(b, j), d);
        }
      }
    });
    w.backward();
    for_products(s.orders, [&](int64_t a, int64_t b, int64_t to, int sign) {
      const Real factor = scale * static_cast<Real>(sign);
      for (int64_t i = 0; i < t; ++i) {
        for (int64_t j = 0; j < t; ++j) {
          const Real g = factor * w.gradient(to)[i * t + j];
          add(g, key.at(b, j), d_query.at(a, i), d);
          add(g, query.at(a, i), d_key.at(b, j), d);
        }
      }
    });
  });
}

Shape shape_of(const Tensor& q, int64_t heads, const JetOrders& orders) {
  return {q.size(1), q.size(2), q.size(3), heads, orders};
}

Tensor forward_cpu(const Tensor& q, const Tensor& kv, const Tensor& bias,
                   int64_t heads, const JetOrders& orders) {
  auto out = torch::zeros_like(q);
  AT_DISPATCH_FLOATING_TYPES(q.scalar_type(), "jet_attention", [&] {
    forward_all<scalar_t>(q, kv, bias, shape_of(q, heads, orders), out);
  });
  return out;
}

JetAttentionGradients backward_cpu(const Tensor& q, const Tensor& kv,
                                   const Tensor& bias, const Tensor& grad,
                                   int64_t heads, const JetOrders& orders) {
  auto dq = torch::zeros_like(q), dkv = torch::zeros_like(kv);
  AT_DISPATCH_FLOATING_TYPES(q.scalar_type(), "jet_attention_backward", [&] {
    backward_all<scalar_t>(q, kv, bias, grad, shape_of(q, heads, orders), dq,
                           dkv);
  });
  return {dq, dkv};
}

class JetAttention : public torch::autograd::Function<JetAttention> {
 public:
  static Tensor forward(torch::autograd::AutogradContext* context,
                        const Tensor& q, const Tensor& kv, const Tensor& bias,
                        int64_t heads, int64_t packed) {
    const auto queries = q.contiguous(), both = kv.contiguous();
    const auto added = bias.contiguous();
    context->save_for_backward({queries, both, added});
    context->saved_data["heads"] = heads;
    context->saved_data["orders"] = packed;
    const auto orders = JetOrders::unpacked(packed);
    return q.is_cuda() ? jet_attention_cuda(queries, both, added, heads, orders)
                       : forward_cpu(queries, both, added, heads, orders);
  }

  static torch::autograd::variable_list backward(
      torch::autograd::AutogradContext* context,
      torch::autograd::variable_list gradients) {
    const auto saved = context->get_saved_variables();
    const int64_t heads = context->saved_data["heads"].toInt();
    const auto orders =
        JetOrders::unpacked(context->saved_data["orders"].toInt());
    const auto grad = gradients[0].contiguous();
    const auto d =
        saved[0].is_cuda()
            ? jet_attention_backward_cuda(saved[0], saved[1], saved[2], grad,
                                          heads, orders)
            : backward_cpu(saved[0], saved[1], saved[2], grad, heads, orders);
    return {d.q, d.kv, Tensor(), Tensor(), Tensor()};
  }
};

}  // namespace

bool has_jet_attention(const Tensor& q, int64_t heads,
                       const JetOrders& orders) {
  return q.is_cpu() ||
         (q.is_cuda() && jet_attention_cuda_fits(q, heads, orders));
}

Tensor jet_attention(const Tensor& q, const Tensor& kv, const Tensor& bias,
                     int64_t heads, const JetOrders& orders) {
  // Autograd takes no undefined tensor.
  const auto added = bias.defined() ? bias : torch::empty({0}, q.options());
  return JetAttention::apply(q, kv, added, heads, orders.packed());
}

}  // namespace propagator::kernels
