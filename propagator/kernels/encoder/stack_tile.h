#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "propagator/kernels/exp.h"
#include "propagator/kernels/lanes.h"
#include "propagator/kernels/tile_product.h"

// The layers of causal_stack.h on some sequences at a time, on one thread, in
// the cache.
namespace propagator::kernels::stack {

struct Sizes {
  int64_t width, heads, hidden, layers;
  double eps;

  int64_t depth() const { return width / heads; }
};

// The numbers of one layer: weights, or their gradients, as they lie one after
// the other.
template <class Real>
struct LayerNumbers {
  Real *norm1, *norm1_bias;  // (C)
  Real* qkv;                 // (3 C, C)
  Real* output;              // (C, C)
  Real *norm2, *norm2_bias;  // (C)
  Real *up, *up_bias;        // (F, C), (F)
  Real *down, *down_bias;    // (C, F), (C)
};

// A layer's weights, with transposed ones for the forward pass.
template <class Real>
struct Layer {
  LayerNumbers<const Real> at;
  std::vector<Real> qkv, output, up, down;  // (in, out)

  Layer(const LayerNumbers<const Real>& weights, const Sizes& s)
      : at(weights),
        qkv(transposed(at.qkv, 3 * s.width, s.width)),
        output(transposed(at.output, s.width, s.width)),
        up(transposed(at.up, s.hidden, s.width)),
        down(transposed(at.down, s.width, s.hidden)) {}

 private:
  static std::vector<Real> transposed(const Real* from, int64_t rows,
                                      int64_t columns) {
    std::vector<Real> to(static_cast<size_t>(rows * columns));
    constexpr int64_t kBlock = 16;
    for (int64_t first = 0; first < rows; first += kBlock) {
      const int64_t end = std::min(first + kBlock, rows);
      for (int64_t c = 0; c < columns; ++c) {
        Real* row = to.data() + c * rows;
        for (int64_t r = first; r < end; ++r) row[r] = from[r * columns + c];
      }
    }
    return to;
  }
};

// What the forward pass leaves of `rows` tokens that each have up to `keys`
// keys.
template <class Real>
struct Kept {
  Real *unit1, *rstd1;  // normalised (rows, C), (rows)
  Real* qkv;            // (rows, 3 C)
  Real* weights;        // of attention, (rows, H, keys)
  Real* mixed;          // (rows, C)
  Real *unit2, *rstd2;  // (rows, C), (rows)
  Real* hidden;         // (rows, F)

  static int64_t of_row(const Sizes& s, int64_t keys) {
    return 6 * s.width + s.hidden + s.heads * keys + 2;
  }
  Kept(Real* from, int64_t rows, const Sizes& s, int64_t keys) {
    const auto take = [&](int64_t columns) {
      Real* here = from;
      from += rows * columns;
      return here;
    };
    unit1 = take(s.width);
    qkv = take(3 * s.width);
    mixed = take(s.width);
    unit2 = take(s.width);
    hidden = take(s.hidden);
    weights = take(s.heads * keys);
    rstd1 = take(1);
    rstd2 = take(1);
  }
};

template <class Real>
Real dot(const Real* a, const Real* b, int64_t count) {
  using L = Lanes<Real>;
  typename L::Vector sum = {};
  for (int64_t n = 0; n < count; n += L::kWidth) {
    sum += L::load(a + n) * L::load(b + n);
  }
  return L::sum(sum);
}

template <class Real>
void add_scaled(Real* to, Real factor, const Real* from, int64_t count) {
  for (int64_t n = 0; n < count; ++n) to[n] += factor * from[n];
}

// unit = (x - mean) rstd and, unless there is no place for it, y = unit w + b.
template <class Real>
void normalise(const Real* x, int64_t rows, int64_t width, double eps,
               const Real* w, const Real* b, Real* unit, Real* rstd, Real* y) {
  for (int64_t r = 0; r < rows; ++r, x += width, unit += width, y += width) {
    Lanes<Real> sum, squares;
    for (int64_t c = 0; c < width; c += Lanes<Real>::kCount) sum.add(x + c);
    const Real mean = sum.sum() / static_cast<Real>(width);
    for (int64_t c = 0; c < width; ++c) unit[c] = x[c] - mean;
    for (int64_t c = 0; c < width; c += Lanes<Real>::kCount) {
      squares.add_product(unit + c, unit + c);
    }
    const Real scale = 1 / std::sqrt(squares.sum() / static_cast<Real>(width) +
                                     static_cast<Real>(eps));
    rstd[r] = scale;
    for (int64_t c = 0; c < width; ++c) {
      unit[c] *= scale;
      y[c] = unit[c] * w[c] + b[c];
    }
  }
}

// dx += the gradient through a norm, whose own gradients dw and db add up.
template <class Real>
void normalise_backward(const Real* dy, int64_t rows, int64_t width,
                        const Real* w, const Real* unit, const Real* rstd,
                        Real* dx, Real* dw, Real* db) {
  std::vector<Real> scaled(static_cast<size_t>(width));
  Real* du = scaled.data();
  for (int64_t r = 0; r < rows; ++r, dy += width, unit += width, dx += width) {
    for (int64_t c = 0; c < width; ++c) {
      du[c] = dy[c] * w[c];
      dw[c] += dy[c] * unit[c];
      db[c] += dy[c];
    }
    Lanes<Real> sum, along;
    for (int64_t c = 0; c < width; c += Lanes<Real>::kCount) {
      sum.add(du + c);
      along.add_product(du + c, unit + c);
    }
    const Real mean = sum.sum() / static_cast<Real>(width);
    const Real slope = along.sum() / static_cast<Real>(width);
    for (int64_t c = 0; c < width; ++c) {
      dx[c] += rstd[r] * (du[c] - mean - unit[c] * slope);
    }
  }
}

// c (rows, columns) = start + a (rows, inner) · b (inner, columns); a start row
// of 0 is one row for all, as a bias is.
template <class Real>
void multiply(int64_t rows, int64_t inner, int64_t columns, const Real* a,
              const Real* b, const Real* start, int64_t start_row, Real* c) {
  TileProduct<Real>{.rows = rows,
                    .inner = inner,
                    .columns = columns,
                    .a = a,
                    .a_row = inner,
                    .b = b,
                    .b_row = columns,
                    .c = c,
                    .c_row = columns,
                    .start = start,
                    .start_row = start_row}
      .run();
}

// dw (out, in) += dyᵀ x
template <class Real>
void add_weights(int64_t rows, int64_t out, int64_t in, const Real* dy,
                 const Real* x, Real* dw) {
  TileProduct<Real>{.rows = out,
                    .inner = rows,
                    .columns = in,
                    .a = dy,
                    .a_row = 1,
                    .a_step = out,
                    .b = x,
                    .b_row = in,
                    .c = dw,
                    .c_row = in,
                    .start = dw,
                    .start_row = in}
      .run();
}

template <class Real>
void add_rows(int64_t rows, int64_t width, const Real* dy, Real* db) {
  for (int64_t r = 0; r < rows; ++r, dy += width) {
    for (int64_t c = 0; c < width; ++c) db[c] += dy[c];
  }
}

// The keys and values of a token that comes before all others (C each), and
// their gradients; null without one.
template <class Real>
struct FirstToken {
  const Real *key = nullptr, *value = nullptr;
  Real *dkey = nullptr, *dvalue = nullptr;
};

// Causal attention of sequences of `tokens` tokens each, by head.
template <class Real>
class Attention {
 public:
  Attention(const Sizes& s, int64_t tokens, const FirstToken<Real>& first)
      : s_(s),
        tokens_(tokens),
        before_(first.key != nullptr ? 1 : 0),
        first_(first),
        scale_(1 / std::sqrt(static_cast<Real>(s.depth()))) {}

  int64_t keys() const { return tokens_ + before_; }

  void forward(int64_t rows, const Kept<Real>& kept) const {
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t h = 0; h < s_.heads; ++h) {
        const int64_t at = h * s_.depth();
        Real* p = kept.weights + (r * s_.heads + h) * keys();
        const Real* q = kept.qkv + 3 * r * s_.width + at;
        const int64_t seen = before_ + r % tokens_ + 1;
        Real most = -INFINITY;
        for (int64_t k = 0; k < seen; ++k) {
          p[k] = scale_ * dot(q, key(kept, r, k) + at, s_.depth());
          most = std::max(most, p[k]);
        }
        Real sum = 0;
        for (int64_t k = 0; k < seen; ++k) {
          p[k] = exp_of_negative(p[k] - most);
          sum += p[k];
        }
        Real* mixed = kept.mixed + r * s_.width + at;
        std::fill_n(mixed, s_.depth(), Real(0));
        for (int64_t k = 0; k < seen; ++k) {
          p[k] /= sum;
          add_scaled(mixed, p[k], value(kept, r, k) + at, s_.depth());
        }
      }
    }
  }

  // Adds to dqkv (rows, 3 C) and to the gradients of the first token; `dp` has
  // room for the keys.
  void backward(int64_t rows, const Kept<Real>& kept, const Real* dmixed,
                Real* dqkv, Real* dp) const {
    const int64_t depth = s_.depth();
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t h = 0; h < s_.heads; ++h) {
        const int64_t at = h * depth, seen = before_ + r % tokens_ + 1;
        const Real* p = kept.weights + (r * s_.heads + h) * keys();
        const Real* d = dmixed + r * s_.width + at;
        const Real* q = kept.qkv + 3 * r * s_.width + at;
        Real* dq = dqkv + 3 * r * s_.width + at;
        Real mean = 0;
        for (int64_t k = 0; k < seen; ++k) {
          dp[k] = dot(d, value(kept, r, k) + at, depth);
          mean += p[k] * dp[k];
        }
        for (int64_t k = 0; k < seen; ++k) {
          const Real ds = scale_ * p[k] * (dp[k] - mean);
          const auto [dkey, dvalue] = gradients(dqkv, r, k);
          add_scaled(dvalue + at, p[k], d, depth);
          add_scaled(dq, ds, key(kept, r, k) + at, depth);
          add_scaled(dkey + at, ds, q, depth);
        }
      }
    }
  }

 private:
  // The row of key k of row r, unless that is the first token's.
  int64_t row_of(int64_t r, int64_t k) const {
    return r - r % tokens_ + k - before_;
  }
  const Real* key(const Kept<Real>& kept, int64_t r, int64_t k) const {
    if (k < before_) return first_.key;
    return kept.qkv + (3 * row_of(r, k) + 1) * s_.width;
  }
  const Real* value(const Kept<Real>& kept, int64_t r, int64_t k) const {
    if (k < before_) return first_.value;
    return kept.qkv + (3 * row_of(r, k) + 2) * s_.width;
  }
  struct KeyValue {
    Real *key, *value;
  };
  KeyValue gradients(Real* dqkv, int64_t r, int64_t k) const {
    if (k < before_) return {first_.dkey, first_.dvalue};
    Real* row = dqkv + 3 * row_of(r, k) * s_.width;
    return {row + s_.width, row + 2 * s_.width};
  }

  Sizes s_;
  int64_t tokens_, before_;
  FirstToken<Real> first_;
  Real scale_;
};

// Room for what lives only within a layer.
template <class Real>
struct Room {
  std::vector<Real> y, a, wide, qkv, keys;

  Room(int64_t rows, const Sizes& s, int64_t most_keys)
      : y(static_cast<size_t>(rows * s.width)),
        a(y.size()),
        wide(static_cast<size_t>(rows * s.hidden)),
        qkv(3 * y.size()),
        keys(static_cast<size_t>(most_keys)) {}
};

// x (rows, C) ← the layer of it.
template <class Real>
void forward_layer(const Layer<Real>& layer, const Sizes& s, int64_t rows,
                   const Attention<Real>& attention, const Kept<Real>& kept,
                   Room<Real>& room, Real* x) {
  const auto& w = layer.at;
  const int64_t c = s.width, f = s.hidden;
  Real* y = room.y.data();
  normalise(x, rows, c, s.eps, w.norm1, w.norm1_bias, kept.unit1, kept.rstd1,
            y);
  multiply<Real>(rows, c, 3 * c, y, layer.qkv.data(), nullptr, 0, kept.qkv);
  attention.forward(rows, kept);
  multiply<Real>(rows, c, c, kept.mixed, layer.output.data(), x, c, x);
  normalise(x, rows, c, s.eps, w.norm2, w.norm2_bias, kept.unit2, kept.rstd2,
            y);
  multiply<Real>(rows, c, f, y, layer.up.data(), w.up_bias, 0, kept.hidden);
  for (int64_t n = 0; n < rows * f; ++n) {
    kept.hidden[n] = kept.hidden[n] > 0 ? kept.hidden[n] : 0;
  }
  for (int64_t r = 0; r < rows; ++r) {
    add_scaled(x + r * c, Real(1), w.down_bias, c);
  }
  multiply<Real>(rows, f, c, kept.hidden, layer.down.data(), x, c, x);
}

// y = unit w + b again.
template <class Real>
void denormalise(int64_t rows, int64_t width, const Real* unit, const Real* w,
                 const Real* b, Real* y) {
  for (int64_t r = 0; r < rows; ++r, unit += width, y += width) {
    for (int64_t c = 0; c < width; ++c) y[c] = unit[c] * w[c] + b[c];
  }
}

// dx (rows, C) ← the gradient by the layer's input; the gradients of its
// weights add up in `sums`. What `dfirst` (2 C) has, if it is there, is added
// to the gradients of key and value of the one row.
template <class Real>
void backward_layer(const Layer<Real>& layer, const Sizes& s, int64_t rows,
                    const Attention<Real>& attention, const Kept<Real>& kept,
                    const LayerNumbers<Real>& sums, const Real* dfirst,
                    Room<Real>& room, Real* dx) {
  const auto& w = layer.at;
  const int64_t c = s.width, f = s.hidden;
  Real *y = room.y.data(), *a = room.a.data(), *dhidden = room.wide.data();
  add_weights(rows, c, f, dx, kept.hidden, sums.down);
  add_rows(rows, c, dx, sums.down_bias);
  multiply<Real>(rows, c, f, dx, w.down, nullptr, 0, dhidden);
  for (int64_t n = 0; n < rows * f; ++n) {
    dhidden[n] = kept.hidden[n] > 0 ? dhidden[n] : 0;
  }
  denormalise(rows, c, kept.unit2, w.norm2, w.norm2_bias, y);
  add_weights(rows, f, c, dhidden, y, sums.up);
  add_rows(rows, f, dhidden, sums.up_bias);
  multiply<Real>(rows, f, c, dhidden, w.up, nullptr, 0, a);
  normalise_backward(a, rows, c, w.norm2, kept.unit2, kept.rstd2, dx,
                     sums.norm2, sums.norm2_bias);
  add_weights(rows, c, c, dx, kept.mixed, sums.output);
  multiply<Real>(rows, c, c, dx, w.output, nullptr, 0, a);
  Real* dqkv = room.qkv.data();
  std::fill_n(dqkv, 3 * rows * c, Real(0));
  if (dfirst != nullptr) std::copy_n(dfirst, 2 * c, dqkv + c);
  attention.backward(rows, kept, a, dqkv, room.keys.data());
  denormalise(rows, c, kept.unit1, w.norm1, w.norm1_bias, y);
  add_weights(rows, 3 * c, c, dqkv, y, sums.qkv);
  multiply<Real>(rows, 3 * c, c, dqkv, w.qkv, nullptr, 0, a);
  normalise_backward(a, rows, c, w.norm1, kept.unit1, kept.rstd1, dx,
                     sums.norm1, sums.norm1_bias);
}

}  // namespace propagator::kernels::stack
