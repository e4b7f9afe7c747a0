#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "propagator/kernels/exp.h"
#include "propagator/kernels/tile_product.h"

namespace propagator::kernels {

// Rows of T weights are filled up to whole vectors.
template <class Real>
int64_t set_columns(int64_t tokens) {
  constexpr int64_t kWidth = Lanes<Real>::kWidth;
  return (tokens + kWidth - 1) / kWidth * kWidth;
}

// Memory of one thread, for one head of one set of at most T tokens.
template <class Real>
struct SetRoom {
  SetRoom(int64_t tokens, int64_t depth)
      : across(static_cast<size_t>(set_columns<Real>(tokens) * depth)),
        hidden(static_cast<size_t>(set_columns<Real>(tokens))),
        factored(hidden.size() * static_cast<size_t>(tokens)),
        d_scores(factored.size()) {}
  std::vector<Real> across;              // (D, columns), keys or values
  std::vector<Real> hidden;              // (columns) of 0 and -∞
  std::vector<Real> factored, d_scores;  // (Q, columns)
};

// Attention in one head of one set (set_attention.h), of a depth D that is
// whole vectors. Q queries meet T keys and values.
template <class Real>
struct SetHead {
  int64_t wanted, tokens, depth;
  const Real* query;
  int64_t query_row;
  const Real *key, *value;
  int64_t key_row;
  const bool* padding = nullptr;  // (T)
  const Real* factors = nullptr;  // (Q, T)
  int64_t factors_row = 0;

  using L = Lanes<Real>;
  using Vector = typename L::Vector;
  static constexpr int64_t kWidth = L::kWidth;

  int64_t columns() const { return set_columns<Real>(tokens); }

  // softmax_j(q_i · k_j / √D | j not padding), (Q, columns), without factors.
  void softmax(Real* weights, SetRoom<Real>& room) const {
    const int64_t n = columns();
    const Real scale = 1 / std::sqrt(static_cast<Real>(depth));
    Real* hidden = room.hidden.data();
    for (int64_t j = 0; j < n; ++j) {
      const bool none = j >= tokens || (padding != nullptr && padding[j]);
      hidden[j] = none ? -std::numeric_limits<Real>::infinity() : Real(0);
    }
    meet(query, query_row, key, weights, room);
    for (int64_t i = 0; i < wanted; ++i) {
      Real* w = weights + i * n;
      Vector most = Vector{} - std::numeric_limits<Real>::infinity();
      for (int64_t j = 0; j < n; j += kWidth) {
        const Vector score = scale * L::load(w + j) + L::load(hidden + j);
        most = most > score ? most : score;
        L::store(score, w + j);
      }
      Real largest = most[0];
      for (int64_t l = 1; l < kWidth; ++l) largest = std::max(largest, most[l]);
      for (int64_t j = 0; j < n; j += kWidth) {
        L::store(L::load(w + j) - largest, w + j);
      }
    }
    for (int64_t k = 0; k < wanted * n; ++k) {
      weights[k] = exp_of_negative(weights[k]);
    }
    for (int64_t i = 0; i < wanted; ++i) {
      Real* w = weights + i * n;
      Vector sum = {};
      for (int64_t j = 0; j < n; j += kWidth) sum += L::load(w + j);
      const Real factor = 1 / L::sum(sum);
      for (int64_t j = 0; j < n; j += kWidth) {
        L::store(factor * L::load(w + j), w + j);
      }
    }
  }

  // out (Q, D) from the weights.
  void mix(const Real* weights, Real* out, int64_t out_row,
           SetRoom<Real>& room) const {
    combine(wanted, tokens, factored(weights, room), columns(), 1, value,
            key_row, out, out_row);
  }

  // From the gradient of `out`, (Q, D), those of queries, of keys and, where
  // keys have their values, of these.
  void backward(const Real* weights, const Real* grad, int64_t grad_row,
                Real* d_query, Real* d_key, Real* d_value,
                SetRoom<Real>& room) const {
    const int64_t n = columns();
    const Real scale = 1 / std::sqrt(static_cast<Real>(depth));
    Real* scores = room.d_scores.data();
    meet(grad, grad_row, value, scores, room);
    for (int64_t i = 0; i < wanted; ++i) {
      const Real* w = weights + i * n;
      Real* ds = scores + i * n;
      apply_factors(i, ds);
      Vector sum = {};
      for (int64_t j = 0; j < n; j += kWidth) {
        sum += L::load(ds + j) * L::load(w + j);
      }
      const Real mean = L::sum(sum);
      for (int64_t j = 0; j < n; j += kWidth) {
        L::store(scale * L::load(w + j) * (L::load(ds + j) - mean), ds + j);
      }
    }
    combine(wanted, tokens, scores, n, 1, key, key_row, d_query, query_row);
    combine(tokens, wanted, scores, 1, n, query, query_row, d_key, key_row);
    combine(tokens, wanted, factored(weights, room), 1, n, grad, grad_row,
            d_value, key_row);
  }

 private:
  // to_ij = x_i · y_j of Q rows and T keys or values; (Q, columns), with zeros
  // behind.
  void meet(const Real* x, int64_t x_row, const Real* y, Real* to,
            SetRoom<Real>& room) const {
    const int64_t n = columns();
    Real* across = room.across.data();
    for (int64_t c = 0; c < depth; ++c, across += n) {
      for (int64_t j = 0; j < tokens; ++j) across[j] = y[j * key_row + c];
      for (int64_t j = tokens; j < n; ++j) across[j] = 0;
    }
    TileProduct<Real>{.rows = wanted,
                      .inner = depth,
                      .columns = n,
                      .a = x,
                      .a_row = x_row,
                      .b = room.across.data(),
                      .b_row = n,
                      .c = to,
                      .c_row = n}
        .run();
  }

  // to_i = Σ_k w_ik x_k, rows of the head's depth.
  void combine(int64_t rows, int64_t count, const Real* w, int64_t w_row,
               int64_t w_step, const Real* x, int64_t x_row, Real* to,
               int64_t to_row) const {
    TileProduct<Real>{.rows = rows,
                      .inner = count,
                      .columns = depth,
                      .a = w,
                      .a_row = w_row,
                      .a_step = w_step,
                      .b = x,
                      .b_row = x_row,
                      .c = to,
                      .c_row = to_row}
        .run();
  }

  void apply_factors(int64_t i, Real* w) const {
    if (factors == nullptr) return;
    const Real* f = factors + i * factors_row;
    for (int64_t j = 0; j < tokens; ++j) w[j] *= f[j];
  }

  // The weights times their factors.
  const Real* factored(const Real* weights, SetRoom<Real>& room) const {
    if (factors == nullptr) return weights;
    const int64_t n = columns();
    Real* all = room.factored.data();
    std::copy_n(weights, wanted * n, all);
    for (int64_t i = 0; i < wanted; ++i) apply_factors(i, all + i * n);
    return all;
  }
};

}  // namespace propagator::kernels
