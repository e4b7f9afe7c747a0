#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "propagator/kernels/exp.h"
#include "propagator/kernels/greens/green_formula.h"
#include "propagator/kernels/log.h"
#include "propagator/kernels/tile_product.h"

namespace propagator::kernels {

template <class Real>
struct HostMath {
  static Real log(Real x) { return log_of_positive(x); }
  static Real sqrt(Real x) { return std::sqrt(x); }
  static Real divide(Real a, Real b) { return a / b; }
  static constexpr Real infinity() {
    return std::numeric_limits<Real>::infinity();
  }
  static Real pick(bool which, Real a, Real b) {
    return kernels::pick(which, a, b);
  }
};

// Queries and keys meet in tiles of so many.
inline constexpr int64_t kTileQueries = 32, kTileKeys = 128;

// Where tokens of one case are: rows of x, y, z, t.
template <class Real>
struct GreenPlaces {
  const Real* at;
  int64_t length;

  GreenPlace<Real> operator[](int64_t n) const {
    return {at[n], at[n + length], at[n + 2 * length], at[n + 3 * length]};
  }
};

// A run of queries and one of keys; `columns` is the number of keys filled up
// to whole vectors.
struct GreenTile {
  int64_t query, queries, key, keys, columns;
};

// Attention of green_attention.h on the CPU, tile by tile. `keys` and `values`
// are less those of the first token, which changes neither a softmax nor its
// gradient; `across` has them as (B, H, D, length of key_places).
template <class Real>
struct GreenTiles {
  int64_t heads, query_count, key_count, depth;
  const Real *query, *key, *value, *key_across, *value_across;
  const Real *query_places, *key_places;
  int64_t query_length, key_length;
  GreenSettings settings;
  Green<Real, HostMath<Real>> green;
  Real scale;

  using L = Lanes<Real>;
  using Vector = typename L::Vector;
  static constexpr int64_t kWidth = L::kWidth;
  static constexpr int64_t kSize = kTileQueries * kTileKeys;

  // Multiplications of all queries of a case with all keys.
  int64_t products() const { return heads * query_count * key_count * depth; }
  int64_t query_tiles() const {
    return (query_count + kTileQueries - 1) / kTileQueries;
  }
  int64_t key_tiles() const { return (key_count + kTileKeys - 1) / kTileKeys; }
  GreenTile tile(int64_t m, int64_t n) const {
    const int64_t i = m * kTileQueries, j = n * kTileKeys;
    const int64_t keys = std::min(kTileKeys, key_count - j);
    return {i, std::min(kTileQueries, query_count - i), j, keys,
            (keys + kWidth - 1) / kWidth * kWidth};
  }

  // The rows of head h of case b.
  template <class Pointer>
  Pointer of_queries(Pointer x, int64_t b, int64_t h) const {
    return x + (b * heads + h) * query_count * depth;
  }
  template <class Pointer>
  Pointer of_keys(Pointer x, int64_t b, int64_t h) const {
    return x + (b * heads + h) * key_count * depth;
  }

  // Γ of a tile; false if no key is visible.
  bool logits(int64_t b, const GreenTile& t, Real* to) const {
    const auto from = queries_of(b);
    const auto keys = keys_of(b);
    const Real last = from[t.query + t.queries - 1].t;
    if (is_causal(settings.form) && !(keys[t.key].t <= last)) return false;
    const auto formula = green;
    with_constants([&](auto form, auto full) {
      for (int64_t i = 0; i < t.queries; ++i) {
        const auto place = from[t.query + i];
        Real* row = to + i * kTileKeys;
        for (int64_t j = 0; j < t.columns; ++j) {
          row[j] = formula.template logit<decltype(form)::value>(
              place, keys[t.key + j], full());
        }
      }
    });
    const Vector never = Vector{} - HostMath<Real>::infinity();
    auto seen = never != never;
    for (int64_t i = 0; i < t.queries; ++i) {
      for (int64_t j = 0; j < t.columns; j += kWidth) {
        seen |= L::load(to + i * kTileKeys + j) != never;
      }
    }
    for (int64_t l = 0; l < kWidth; ++l) {
      if (seen[l]) return true;
    }
    return false;
  }

  // q_i · k_j / √D + Γ_ij.
  void scores(int64_t b, int64_t h, const GreenTile& t, const Real* logits,
              Real* to) const {
    meet(of_queries(query, b, h), key_across, b, h, t, to);
    for (int64_t i = 0; i < t.queries; ++i) {
      Real* row = to + i * kTileKeys;
      const Real* bias = logits + i * kTileKeys;
      for (int64_t j = 0; j < t.columns; j += kWidth) {
        L::store(scale * L::load(row + j) + L::load(bias + j), row + j);
      }
    }
  }

  // exp(score - base) of a row in its place, and their sum.
  Real exponentials(Real* row, int64_t columns, Real base) const {
    for (int64_t j = 0; j < columns; ++j) {
      row[j] = exp_or_nan(row[j] - base);
    }
    Vector sum = {};
    for (int64_t j = 0; j < columns; j += kWidth) sum += L::load(row + j);
    return L::sum(sum);
  }

  // The softmax so far of a row meets more scores, which become its weights;
  // `out` is what it has summed up.
  void soften(Real* row, int64_t columns, Real& peak, Real& total,
              Real* out) const {
    const Real top = largest(row, columns, peak);
    const Real base = top == -HostMath<Real>::infinity() ? Real(0) : top;
    const Real shrink = exp_of_negative(peak - base);
    peak = top;
    total = shrink * total + exponentials(row, columns, base);
    for (int64_t c = 0; c < depth; ++c) out[c] *= shrink;
  }

  // out (T, D) += weights (tile) times the values.
  void mix(int64_t b, int64_t h, const GreenTile& t, const Real* weights,
           Real* out) const {
    combine(t.queries, t.keys, weights, kTileKeys, 1,
            of_keys(value, b, h) + t.key * depth, out);
  }

  // The tile of weights p and, in `slopes`, of p (dout · v - delta).
  void weights_and_slopes(int64_t b, int64_t h, const GreenTile& t,
                          const Real* logits, const Real* grad,
                          const Real* log_sum, const Real* delta, Real* weights,
                          Real* slopes) const {
    scores(b, h, t, logits, weights);
    meet(of_queries(grad, b, h), value_across, b, h, t, slopes);
    const int64_t first = (b * heads + h) * query_count + t.query;
    for (int64_t i = 0; i < t.queries; ++i) {
      Real* w = weights + i * kTileKeys;
      Real* s = slopes + i * kTileKeys;
      exponentials(w, t.columns, log_sum[first + i]);
      const Real mean = delta[first + i];
      for (int64_t j = 0; j < t.columns; j += kWidth) {
        L::store(L::load(w + j) * (L::load(s + j) - mean), s + j);
      }
    }
  }

  // to += slopes · keys / √D
  void add_query_gradient(int64_t b, int64_t h, const GreenTile& t,
                          const Real* slopes, Real* to) const {
    combine(t.queries, t.keys, slopes, kTileKeys, 1,
            of_keys(key, b, h) + t.key * depth, to);
  }

  // to (keys, D) += weightsᵀ · rows
  void add_key_gradient(const GreenTile& t, const Real* weights,
                        const Real* rows, Real* to) const {
    combine(t.keys, t.queries, weights, 1, kTileKeys, rows + t.query * depth,
            to);
  }

  // Adds Σ slopes · ∂Γ/∂(b, a or c) of a tile.
  void add_parameter_gradient(int64_t b, const GreenTile& t, const Real* slopes,
                              double (&sum)[kGreenParameters]) const {
    const auto from = queries_of(b);
    const auto keys = keys_of(b);
    const auto formula = green;
    Real parts[kGreenParameters][kTileKeys];
    with_constants([&](auto form, auto full) {
      for (int64_t i = 0; i < t.queries; ++i) {
        const auto place = from[t.query + i];
        for (int64_t j = 0; j < t.columns; ++j) {
          const auto s = formula.template slopes<decltype(form)::value>(
              place, keys[t.key + j], full());
          parts[0][j] = s.t;
          parts[1][j] = s.x;
          parts[2][j] = s.y;
          parts[3][j] = s.z;
        }
        for (int n = 0; n < kGreenParameters; ++n) {
          sum[n] += dot(slopes + i * kTileKeys, parts[n], t.columns);
        }
      }
    });
  }

 private:
  // Calls work(form, full) with both as types, for loops that vectorise.
  template <class Work>
  void with_constants(const Work& work) const {
    with_form(settings.form, [&](auto form) {
      if (settings.full) {
        work(form, std::true_type{});
      } else {
        work(form, std::false_type{});
      }
    });
  }

  GreenPlaces<Real> queries_of(int64_t b) const {
    return {query_places + b * 4 * query_length, query_length};
  }
  GreenPlaces<Real> keys_of(int64_t b) const {
    return {key_places + b * 4 * key_length, key_length};
  }

  static Real largest(const Real* x, int64_t count, Real least) {
    Vector most = Vector{} + least;
    for (int64_t j = 0; j < count; j += kWidth) {
      const Vector y = L::load(x + j);
      most = most > y ? most : y;
    }
    Real top = most[0];
    for (int64_t l = 1; l < kWidth; ++l) top = std::max(top, most[l]);
    return top;
  }

  static Real dot(const Real* x, const Real* y, int64_t count) {
    Vector sum = {};
    for (int64_t j = 0; j < count; j += kWidth) {
      sum += L::load(x + j) * L::load(y + j);
    }
    return L::sum(sum);
  }

  // to_ij = rows_i · across_j
  void meet(const Real* rows, const Real* across, int64_t b, int64_t h,
            const GreenTile& t, Real* to) const {
    TileProduct<Real>{
        .rows = t.queries,
        .inner = depth,
        .columns = t.columns,
        .a = rows + t.query * depth,
        .a_row = depth,
        .b = across + (b * heads + h) * depth * key_length + t.key,
        .b_row = key_length,
        .c = to,
        .c_row = kTileKeys}
        .run();
  }

  // to_i += Σ_k w_ik x_k
  void combine(int64_t rows, int64_t count, const Real* w, int64_t w_row,
               int64_t w_step, const Real* x, Real* to) const {
    TileProduct<Real>{.rows = rows,
                      .inner = count,
                      .columns = depth,
                      .a = w,
                      .a_row = w_row,
                      .a_step = w_step,
                      .b = x,
                      .b_row = depth,
                      .c = to,
                      .c_row = depth,
                      .start = to,
                      .start_row = depth}
        .run();
  }
};

}  // namespace propagator::kernels
