#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "propagator/kernels/set/linear_rows.h"
#include "propagator/kernels/set/norm_rows.h"
#include "propagator/kernels/set/set_attention_head.h"

namespace propagator::kernels {

// What a layer meets: the R tokens of packed sets (packed_sets.h), of width C,
// and which of them it answers for, Q in all.
struct SetLayerShape {
  int64_t sets, tokens, rows;    // B, T, R
  const int64_t *begin, *place;  // (B + 1), (R)
  int64_t width, hidden, heads;  // C, F, H
  bool first;                    // answers for the first token of each set

  int64_t depth() const { return width / heads; }
  int64_t asked() const { return first ? sets : rows; }
  int64_t asked(int64_t set) const { return first ? 1 : count(set); }
  int64_t first_asked(int64_t set) const { return first ? set : begin[set]; }
  int64_t count(int64_t set) const { return begin[set + 1] - begin[set]; }
};

// A layer's parameters or their gradients, of which a null one is not wanted;
// linear maps are (out, in).
template <class Real>
struct SetLayerNumbers {
  Real *qkv, *qkv_bias, *output, *output_bias;
  Real *linear1, *linear1_bias, *linear2, *linear2_bias;
  Real *norm1, *norm1_bias, *norm2, *norm2_bias;
};

// Factors of dropouts, or nullptr.
template <class Real>
struct SetLayerDraws {
  const Real* attention;  // (Q, C)
  const Real* hidden;     // (Q, F)
  const Real* output;     // (Q, C)
};

// What the backward pass needs of the forward pass, one after the other in
// memory; without memory it is only measured.
template <class Real>
struct SetLayerKept {
  SetLayerKept(const SetLayerShape& s, Real* memory) {
    const auto take = [&](int64_t count) {
      Real* here = memory == nullptr ? nullptr : memory + size;
      size += (count + 15) / 16 * 16;
      return here;
    };
    const int64_t q = s.asked(), c = s.width;
    int64_t squares = 0;
    for (int64_t b = 0; b < s.sets; ++b) {
      squares += s.heads * s.asked(b) * set_columns<Real>(s.count(b));
    }
    own = take(s.first ? q * c : 0);
    query = take(q * c);
    key_value = take(2 * s.rows * c);
    weights = take(squares);
    factors = take(squares);
    mixed = take(q * c);
    normed1 = take(q * c);
    rstd1 = take(q);
    middle = take(q * c);
    hidden = take(q * s.hidden);
    normed2 = take(q * c);
    rstd2 = take(q);
  }
  Real* own;                // (Q, C), tokens that are asked for, if not all
  Real *query, *key_value;  // (Q, C), (R, 2 C)
  Real *weights, *factors;  // of each set and head (Q, columns)
  Real *mixed, *middle;     // (Q, C), of attention and of the first norm
  Real* hidden;             // (Q, F), after ReLU and dropout
  Real *normed1, *normed2;  // (Q, C)
  Real *rstd1, *rstd2;      // (Q)
  int64_t size = 0;
};

// An encoder layer with norms after the sums and ReLU (nn/set_encoder.h) and
// its gradient, on one thread. C and F are multiples of Lanes' kCount and
// depths of heads are whole vectors.
template <class Real>
struct SetLayer {
  const SetLayerShape& s;
  SetLayerNumbers<Real> w;
  SetLayerDraws<Real> f;

  // x (R, C) → out (Q, C). Factors of attention's weights, (B, H, T or 1, T),
  // are given as they lie among padding.
  void forward(const Real* x, const Real* weight_factors,
               const SetLayerKept<Real>& kept, double eps, Real* out) const {
    const int64_t c = s.width, q = s.asked(), h = s.hidden;
    std::vector<Real> transposed(static_cast<size_t>(c * std::max(2 * c, h)));
    if (s.first) {
      for (int64_t b = 0; b < s.sets; ++b) {
        std::copy_n(x + s.begin[b] * c, c, kept.own + b * c);
      }
    }
    const Real* own = s.first ? kept.own : x;
    linear(q, c, c).forward(own, w.qkv, w.qkv_bias, transposed.data(),
                            kept.query);
    linear(s.rows, c, 2 * c)
        .forward(x, w.qkv + c * c, w.qkv_bias + c, transposed.data(),
                 kept.key_value);
    if (weight_factors != nullptr) pack_factors(weight_factors, kept.factors);
    for_heads(kept, [&](const auto& head, Real* weights, int64_t at, int64_t,
                        auto& room) {
      head.softmax(weights, room);
      head.mix(weights, kept.mixed + at, c, room);
    });
    linear(q, c, c).forward(kept.mixed, w.output, w.output_bias,
                            transposed.data(), kept.normed1);
    add_dropped(own, f.attention, q * c, kept.normed1);
    norm1().forward(kept.normed1, kept.rstd1, kept.middle, eps);

    linear(q, c, h).forward(kept.middle, w.linear1, w.linear1_bias,
                            transposed.data(), kept.hidden);
    for (int64_t i = 0; i < q * h; ++i) {
      kept.hidden[i] = kept.hidden[i] > 0 ? kept.hidden[i] : Real(0);
    }
    drop(kept.hidden, f.hidden, q * h, kept.hidden);
    linear(q, h, c).forward(kept.hidden, w.linear2, w.linear2_bias,
                            transposed.data(), kept.normed2);
    add_dropped(kept.middle, f.output, q * c, kept.normed2);
    norm2().forward(kept.normed2, kept.rstd2, out, eps);
  }

  // grad (Q, C) → dx (R, C); the gradients of the parameters are added to `d`.
  void backward(const Real* grad, const Real* x, const SetLayerKept<Real>& kept,
                const SetLayerNumbers<Real>& d, Real* dx) const {
    const int64_t c = s.width, q = s.asked(), h = s.hidden, r = s.rows;
    std::vector<Real> memory(
        static_cast<size_t>(4 * q * c + q * h + 2 * r * c));
    Real *d_sum = memory.data(), *d_part = d_sum + q * c,
         *d_mixed = d_part + q * c, *d_query = d_mixed + q * c,
         *d_hidden = d_query + q * c, *d_key_value = d_hidden + q * h;

    norm2().backward(grad, kept.normed2, kept.rstd2, d_sum, d.norm2,
                     d.norm2_bias);
    drop(d_sum, f.output, q * c, d_part);
    linear(q, h, c).add_gradients(d_part, kept.hidden, d.linear2,
                                  d.linear2_bias);
    linear(q, h, c).backward(d_part, w.linear2, nullptr, d_hidden);
    drop(d_hidden, f.hidden, q * h, d_hidden);
    for (int64_t i = 0; i < q * h; ++i) {
      d_hidden[i] = kept.hidden[i] > 0 ? d_hidden[i] : Real(0);
    }
    linear(q, c, h).add_gradients(d_hidden, kept.middle, d.linear1,
                                  d.linear1_bias);
    linear(q, c, h).backward(d_hidden, w.linear1, d_sum, d_part);

    norm1().backward(d_part, kept.normed1, kept.rstd1, d_sum, d.norm1,
                     d.norm1_bias);
    drop(d_sum, f.attention, q * c, d_part);
    linear(q, c, c).add_gradients(d_part, kept.mixed, d.output, d.output_bias);
    linear(q, c, c).backward(d_part, w.output, nullptr, d_mixed);
    for_heads(kept, [&](const auto& head, const Real* weights, int64_t at,
                        int64_t key, auto& room) {
      head.backward(weights, d_mixed + at, c, d_query + at, d_key_value + key,
                    d_key_value + key + c, room);
    });
    const Real* own = s.first ? kept.own : x;
    linear(q, c, c).add_gradients(d_query, own, d.qkv, d.qkv_bias);
    linear(r, c, 2 * c)
        .add_gradients(d_key_value, x, behind(d.qkv, c * c),
                       behind(d.qkv_bias, c));

    // Through the sum and the queries, then through keys and values.
    linear(q, c, c).backward(d_query, w.qkv, d_sum, d_part);
    linear(r, c, 2 * c)
        .backward(d_key_value, w.qkv + c * c, s.first ? nullptr : d_part, dx);
    if (!s.first) return;
    for (int64_t b = 0; b < s.sets; ++b) {
      Real* to = dx + s.begin[b] * c;
      for (int64_t k = 0; k < c; ++k) to[k] += d_part[b * c + k];
    }
  }

 private:
  static Real* behind(Real* gradient, int64_t count) {
    return gradient == nullptr ? nullptr : gradient + count;
  }
  static LinearRows<Real> linear(int64_t rows, int64_t in, int64_t out) {
    return {rows, in, out};
  }
  NormRows<Real> norm1() const {
    return {s.asked(), s.width, w.norm1, w.norm1_bias};
  }
  NormRows<Real> norm2() const {
    return {s.asked(), s.width, w.norm2, w.norm2_bias};
  }

  // to = f ⊙ x
  static void drop(const Real* x, const Real* factors, int64_t count,
                   Real* to) {
    for (int64_t i = 0; i < count; ++i) {
      to[i] = factors == nullptr ? x[i] : factors[i] * x[i];
    }
  }
  // to = x + f ⊙ to
  static void add_dropped(const Real* x, const Real* factors, int64_t count,
                          Real* to) {
    drop(to, factors, count, to);
    for (int64_t i = 0; i < count; ++i) to[i] += x[i];
  }

  // Calls `work(head, weights, offset into (Q, C), into (R, 2 C), room)` for
  // every head of every set.
  template <class Work>
  void for_heads(const SetLayerKept<Real>& kept, Work&& work) const {
    const int64_t c = s.width, d = s.depth();
    SetRoom<Real> room(s.tokens, d);
    int64_t square = 0;
    for (int64_t b = 0; b < s.sets; ++b) {
      const int64_t n = set_columns<Real>(s.count(b));
      for (int64_t h = 0; h < s.heads; ++h, square += s.asked(b) * n) {
        const int64_t query = s.first_asked(b) * c + h * d;
        const int64_t key = s.begin[b] * 2 * c + h * d;
        const SetHead<Real> head{
            .wanted = s.asked(b),
            .tokens = s.count(b),
            .depth = d,
            .query = kept.query + query,
            .query_row = c,
            .key = kept.key_value + key,
            .value = kept.key_value + key + c,
            .key_row = 2 * c,
            .factors = f.attention == nullptr ? nullptr : kept.factors + square,
            .factors_row = n};
        work(head, kept.weights + square, query, key, room);
      }
    }
  }

  // The factors of weights among no padding, as `kept` has the weights.
  void pack_factors(const Real* all, Real* to) const {
    const int64_t t = s.tokens, per_head = (s.first ? 1 : t) * t;
    for (int64_t b = 0; b < s.sets; ++b) {
      const int64_t* place = s.place + s.begin[b];
      const int64_t n = set_columns<Real>(s.count(b));
      for (int64_t h = 0; h < s.heads; ++h, all += per_head) {
        for (int64_t i = 0; i < s.asked(b); ++i, to += n) {
          const Real* from = all + (place[i] - b * t) * t;
          for (int64_t j = 0; j < s.count(b); ++j) {
            to[j] = from[place[j] - b * t];
          }
        }
      }
    }
  }
};

}  // namespace propagator::kernels
