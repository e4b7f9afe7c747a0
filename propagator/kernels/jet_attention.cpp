#include "propagator/kernels/jet_attention.h"

#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>

#include <cmath>
#include <vector>

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

// For every pair of rows whose product counts towards a row: in a jet, 0·0 to
// 0, and along each direction 0·1 + 1·0 to its x_1, 0·2 + 1·1 + 2·0 to its x_2.
template <class Work>
void for_products(const JetOrders& o, Work&& work) {
  work(0, 0, 0);
  for (int64_t r = 1; r <= o.first; ++r) {
    work(0, r, r);
    work(r, 0, r);
    if (r > o.second) continue;
    const int64_t second = r + o.first;
    work(0, second, second);
    work(r, r, second);
    work(second, 0, second);
  }
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
    for_products(s_.orders, [&](int64_t a, int64_t b, int64_t to) {
      Real* out = score(to);
      for (int64_t i = 0; i < t; ++i) {
        for (int64_t j = 0; j < t; ++j) {
          out[i * t + j] += scale * dot(q.at(a, i), k.at(b, j), s_.depth());
        }
      }
    });
    if (bias != nullptr) add(Real(1), bias, score(0), s_.squares());
    for (int64_t i = 0; i < t; ++i) softmax(i * t);
  }

  // From gradient(m) by the weights to gradient(m) by the scores.
  void backward() {
    for (int64_t i = 0; i < s_.tokens; ++i) softmax_backward(i * s_.tokens);
  }

 private:
  size_t offset(int64_t m) const {
    return static_cast<size_t>(m * s_.squares());
  }

  // With w_1 = s_1, w_2 = s_2 + s_1²/2 and Z_k = Σ p_0 w_k:
  //   p_1 = p_0 (w_1 - Z_1),  p_2 = p_0 (w_2 - w_1 Z_1 + Z_1² - Z_2).
  void softmax(int64_t at) {
    const int64_t t = s_.tokens;
    const Real* s0 = score(0) + at;
    Real* p0 = weight(0) + at;
    Real largest = s0[0], sum = 0;
    for (int64_t j = 1; j < t; ++j) largest = std::max(largest, s0[j]);
    for (int64_t j = 0; j < t; ++j) sum += p0[j] = std::exp(s0[j] - largest);
    for (int64_t j = 0; j < t; ++j) p0[j] /= sum;
    for (int64_t r = 1; r <= s_.orders.first; ++r) {
      const Real* s1 = score(r) + at;
      Real* p1 = weight(r) + at;
      Real z1 = 0, z2 = 0;
      for (int64_t j = 0; j < t; ++j) z1 += p0[j] * s1[j];
      for (int64_t j = 0; j < t; ++j) p1[j] = p0[j] * (s1[j] - z1);
      if (r > s_.orders.second) continue;
      const Real* s2 = score(r + s_.orders.first) + at;
      Real* p2 = weight(r + s_.orders.first) + at;
      const auto w2 = [&](int64_t j) {
        return s2[j] + Real(0.5) * s1[j] * s1[j];
      };
      for (int64_t j = 0; j < t; ++j) z2 += p0[j] * w2(j);
      for (int64_t j = 0; j < t; ++j) {
        p2[j] = p0[j] * (w2(j) - s1[j] * z1 + z1 * z1 - z2);
      }
    }
  }

  void softmax_backward(int64_t at) {
    const int64_t t = s_.tokens;
    const Real* p0 = weight(0) + at;
    Real* d0 = gradient(0) + at;  // grows to the whole gradient by p_0
    for (int64_t r = 1; r <= s_.orders.first; ++r) {
      const bool second = r <= s_.orders.second;
      const Real* s1 = score(r) + at;
      const Real* s2 = score(second ? r + s_.orders.first : 0) + at;
      Real* d1 = gradient(r) + at;
      Real* d2 = gradient(second ? r + s_.orders.first : 0) + at;
      const auto w2 = [&](int64_t j) {
        return s2[j] + Real(0.5) * s1[j] * s1[j];
      };
      Real z1 = 0, z2 = 0, dz1 = 0, dz2 = 0;
      for (int64_t j = 0; j < t; ++j) {
        z1 += p0[j] * s1[j];
        if (second) z2 += p0[j] * w2(j);
      }
      for (int64_t j = 0; j < t; ++j) {
        dz1 -= p0[j] * d1[j];
        if (!second) continue;
        dz1 += p0[j] * d2[j] * (2 * z1 - s1[j]);
        dz2 -= p0[j] * d2[j];
      }
      for (int64_t j = 0; j < t; ++j) {
        Real by_w1 = p0[j] * (d1[j] + dz1);
        d0[j] += d1[j] * (s1[j] - z1) + s1[j] * dz1;
        if (second) {
          const Real w = w2(j), g2 = d2[j];
          d0[j] += g2 * (w - s1[j] * z1 + z1 * z1 - z2) + w * dz2;
          const Real by_w2 = p0[j] * (g2 + dz2);
          by_w1 += -p0[j] * g2 * z1 + s1[j] * by_w2;
          d2[j] = by_w2;
        }
        d1[j] = by_w1;
      }
    }
    Real mean = 0;
    for (int64_t j = 0; j < t; ++j) mean += p0[j] * d0[j];
    for (int64_t j = 0; j < t; ++j) d0[j] = p0[j] * (d0[j] - mean);
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
    for_products(s.orders, [&](int64_t a, int64_t b, int64_t to) {
      for (int64_t i = 0; i < t; ++i) {
        for (int64_t j = 0; j < t; ++j) {
          add(w.weight(a)[i * t + j], value.at(b, j), answer.at(to, i), d);
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
    for_products(s.orders, [&](int64_t a, int64_t b, int64_t to) {
      for (int64_t i = 0; i < t; ++i) {
        for (int64_t j = 0; j < t; ++j) {
          w.gradient(a)[i * t + j] += dot(given.at(to, i), value.at(b, j), d);
          add(w.weight(a)[i * t + j], given.at(to, i), d_value.at(b, j), d);
        }
      }
    });
    w.backward();
    for_products(s.orders, [&](int64_t a, int64_t b, int64_t to) {
      for (int64_t i = 0; i < t; ++i) {
        for (int64_t j = 0; j < t; ++j) {
          const Real g = scale * w.gradient(to)[i * t + j];
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

class JetAttention : public torch::autograd::Function<JetAttention> {
 public:
  static Tensor forward(torch::autograd::AutogradContext* context,
                        const Tensor& q, const Tensor& kv, const Tensor& bias,
                        int64_t heads, int64_t first, int64_t second) {
    const auto queries = q.contiguous(), both = kv.contiguous();
    const auto added = bias.contiguous();
    context->save_for_backward({queries, both, added});
    context->saved_data["heads"] = heads;
    context->saved_data["first"] = first;
    context->saved_data["second"] = second;
    auto out = torch::zeros_like(queries);
    AT_DISPATCH_FLOATING_TYPES(q.scalar_type(), "jet_attention", [&] {
      forward_all<scalar_t>(queries, both, added,
                            shape_of(queries, heads, {first, second}), out);
    });
    return out;
  }

  static torch::autograd::variable_list backward(
      torch::autograd::AutogradContext* context,
      torch::autograd::variable_list gradients) {
    const auto saved = context->get_saved_variables();
    const auto& q = saved[0];
    const auto shape = shape_of(q, context->saved_data["heads"].toInt(),
                                {context->saved_data["first"].toInt(),
                                 context->saved_data["second"].toInt()});
    auto dq = torch::zeros_like(q), dkv = torch::zeros_like(saved[1]);
    const auto grad = gradients[0].contiguous();
    AT_DISPATCH_FLOATING_TYPES(q.scalar_type(), "jet_attention_backward", [&] {
      backward_all<scalar_t>(q, saved[1], saved[2], grad, shape, dq, dkv);
    });
    return {dq, dkv, Tensor(), Tensor(), Tensor(), Tensor()};
  }
};

}  // namespace

bool has_jet_attention(const torch::Device& device) { return device.is_cpu(); }

Tensor jet_attention(const Tensor& q, const Tensor& kv, const Tensor& bias,
                     int64_t heads, const JetOrders& orders) {
  // Autograd takes no undefined tensor.
  const auto added = bias.defined() ? bias : torch::empty({0}, q.options());
  return JetAttention::apply(q, kv, added, heads, orders.first, orders.second);
}

}  // namespace propagator::kernels
