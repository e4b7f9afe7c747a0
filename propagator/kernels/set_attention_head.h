#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "propagator/kernels/exp.h"

namespace propagator::kernels {

struct SetShape {
  int64_t sets, tokens, width, heads, wanted;
  int64_t depth() const { return width / heads; }
  int64_t row() const { return 3 * width; }
  // Rows of weights are filled up to whole vectors.
  int64_t columns() const { return (tokens + 3) / 4 * 4; }
};

// Memory of one thread, for one head of one set.
template <class Real>
struct SetRoom {
  explicit SetRoom(const SetShape& s)
      : keys(static_cast<size_t>(s.columns() * s.depth())),
        values(keys.size()),
        hidden(static_cast<size_t>(s.columns())),
        weights(hidden.size() * static_cast<size_t>(s.wanted)),
        d_scores(weights.size()) {}
  std::vector<Real> keys, values;       // (D, columns)
  std::vector<Real> hidden;             // (columns) of 0 and -∞
  std::vector<Real> weights, d_scores;  // (Q, columns)
};

// Attention in one head of one set (set_attention.h), of a depth that the
// compiler knows, or 0 if it does not.
template <class Real, int64_t kDepth>
struct SetHead {
  const SetShape& s;
  const Real* data;     // query of token 0; keys and values C and 2 C further
  const bool* padding;  // (T) or nullptr
  const Real* factors;  // (Q, T) or nullptr

  int64_t depth() const { return kDepth > 0 ? kDepth : s.depth(); }
  const Real* query(int64_t i) const { return data + i * s.row(); }
  const Real* key(int64_t j) const { return query(j) + s.width; }
  const Real* value(int64_t j) const { return key(j) + s.width; }
  Real scale() const { return 1 / std::sqrt(static_cast<Real>(depth())); }

  // Part 1, keys, or 2, values, with a token in each column.
  void load(int64_t part, Real* to) const {
    for (int64_t j = 0; j < s.tokens; ++j) {
      const Real* from = query(j) + part * s.width;
      for (int64_t c = 0; c < depth(); ++c) to[c * s.columns() + j] = from[c];
    }
  }

  // to_j += scale Σ_c x_c m_cj, four columns at a time, which stay in a
  // register.
  void add_product(const Real* x, const Real* m, Real scale, Real* to) const {
    const int64_t n = s.columns();
    for (int64_t j = 0; j < n; j += 4) {
      Real sum[4] = {};
      for (int64_t c = 0; c < depth(); ++c) {
        for (int64_t l = 0; l < 4; ++l) sum[l] += x[c] * m[c * n + j + l];
      }
      for (int64_t l = 0; l < 4; ++l) to[j + l] += scale * sum[l];
    }
  }

  // All of the weights, without factors.
  void softmax(SetRoom<Real>& room) const {
    const int64_t n = s.columns();
    Real* hidden = room.hidden.data();
    for (int64_t j = 0; j < n; ++j) {
      const bool none = j >= s.tokens || (padding != nullptr && padding[j]);
      hidden[j] = none ? -std::numeric_limits<Real>::infinity() : Real(0);
    }
    load(1, room.keys.data());
    Real* all = room.weights.data();
    for (int64_t i = 0; i < s.wanted; ++i) {
      Real* w = all + i * n;
      std::copy(hidden, hidden + n, w);
      add_product(query(i), room.keys.data(), scale(), w);
      Real largest = w[0];
      for (int64_t j = 1; j < n; ++j) largest = std::max(largest, w[j]);
      for (int64_t j = 0; j < n; ++j) w[j] -= largest;
    }
    for (int64_t k = 0; k < s.wanted * n; ++k) all[k] = exp_of_negative(all[k]);
    for (int64_t i = 0; i < s.wanted; ++i) {
      Real* w = all + i * n;
      Real sum = 0;
      for (int64_t j = 0; j < s.tokens; ++j) sum += w[j];
      const Real factor = 1 / sum;
      for (int64_t j = 0; j < n; ++j) w[j] *= factor;
    }
  }

  // The weights of query i times its factors.
  void apply_factors(int64_t i, Real* w) const {
    if (factors == nullptr) return;
    const Real* f = factors + i * s.tokens;
    for (int64_t j = 0; j < s.tokens; ++j) w[j] *= f[j];
  }

  // to = Σ_k w_k x_k over `count` rows of x; weights are `step` apart.
  void combine(const Real* w, int64_t step, const Real* x, int64_t row,
               int64_t count, Real* to) const {
    if constexpr (kDepth > 0) {
      Real sum[kDepth] = {};
      for (int64_t k = 0; k < count; ++k) {
        const Real factor = w[k * step];
        for (int64_t c = 0; c < kDepth; ++c) sum[c] += factor * x[k * row + c];
      }
      std::copy_n(sum, kDepth, to);
    } else {
      std::fill_n(to, depth(), Real(0));
      for (int64_t k = 0; k < count; ++k) {
        const Real factor = w[k * step];
        for (int64_t c = 0; c < depth(); ++c) to[c] += factor * x[k * row + c];
      }
    }
  }

  void forward(Real* out, SetRoom<Real>& room) const {
    softmax(room);
    for (int64_t i = 0; i < s.wanted; ++i) {
      Real* w = room.weights.data() + i * s.columns();
      apply_factors(i, w);
      combine(w, 1, value(0), s.row(), s.tokens, out + i * s.width);
    }
  }

  void backward(const Real* grad, Real* d_data, SetRoom<Real>& room) const {
    const int64_t t = s.tokens, n = s.columns();
    softmax(room);
    load(2, room.values.data());
    Real *weights = room.weights.data(), *scores = room.d_scores.data();
    std::fill(room.d_scores.begin(), room.d_scores.end(), Real(0));
    for (int64_t i = 0; i < s.wanted; ++i) {
      Real *w = weights + i * n, *ds = scores + i * n;
      add_product(grad + i * s.width, room.values.data(), 1, ds);
      apply_factors(i, ds);
      Real mean = 0;
      for (int64_t j = 0; j < t; ++j) mean += ds[j] * w[j];
      const Real by = scale();
      for (int64_t j = 0; j < t; ++j) ds[j] = by * w[j] * (ds[j] - mean);
      apply_factors(i, w);
      combine(ds, 1, key(0), s.row(), t, d_data + i * s.row());
    }
    for (int64_t j = 0; j < t; ++j) {
      Real* to = d_data + j * s.row() + s.width;
      combine(scores + j, n, data, s.row(), s.wanted, to);
      combine(weights + j, n, grad, s.width, s.wanted, to + s.width);
    }
  }
};

}  // namespace propagator::kernels
