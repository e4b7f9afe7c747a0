#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "propagator/kernels/exp.h"
#include "propagator/kernels/tile_product.h"

namespace propagator::kernels {

// Which keys a query sees: j < prefix, and j ≤ i or j < i.
struct CausalReach {
  int64_t tokens, prefix;
  bool sees_itself;

  int64_t keys_seen(int64_t query) const {
    return std::min(tokens, std::max(prefix, query + (sees_itself ? 1 : 0)));
  }
  // A token that every query sees.
  int64_t origin() const {
    return std::max<int64_t>(std::min(prefix, tokens), 1) - 1;
  }
};

// The rows of one head, D numbers each.
template <class Real>
struct HeadRows {
  Real* at;
  int64_t row;

  Real* operator[](int64_t n) const { return at + n * row; }
};

// Causal attention (causal_attention.h) in one head, with room for its work, so
// that one thread takes head after head with it. Some queries at a time meet
// all keys that they see: their weights, and none of others, are in the cache.
// Keys and values are differences from those of one token that every query
// sees: what all have in common must not come back as rounding.
template <class Real>
class CausalHead {
 public:
  using Rows = HeadRows<Real>;
  using Given = HeadRows<const Real>;

  static constexpr int64_t kQueries = 24;  // that go together

  CausalHead(const CausalReach& reach, int64_t depth)
      : reach_(reach),
        depth_(depth),
        width_(whole(depth)),
        columns_(whole(reach.tokens)),
        scale_(static_cast<Real>(1 / std::sqrt(static_cast<double>(depth)))) {
    keys_ = room(reach.tokens * width_);
    values_ = keys_;
    keys_across_ = room(depth * columns_);
    weights_ = room(kQueries * columns_);
    mixed_ = room(kQueries * width_);
    queries_ = mixed_;
  }

  // out_i = Σ_j softmax_j(q_i · k_j / √D) v_j, and the logarithm of the sum
  // that divides the softmax.
  void forward(const Given& q, const Given& k, const Given& v, const Rows& out,
               Real* log_sum) {
    take(k, keys_);
    take(v, values_);
    turn(keys_, scale_, keys_across_);
    const Real* origin = v[reach_.origin()];
    for (int64_t first = 0; first < reach_.tokens; first += kQueries) {
      const Block block(*this, first);
      copy(q, block, queries_);
      meet(block, queries_, keys_across_, weights_);
      for (int64_t n = 0; n < block.queries; ++n) {
        log_sum[first + n] = soften(weights_.data() + n * columns_, block, n);
      }
      combine(block, weights_, values_, mixed_);
      for (int64_t n = 0; n < block.queries; ++n) {
        const Real factor = 1 / total_[n];
        const Real* mixed = mixed_.data() + n * width_;
        Real* to = out[first + n];
        for (int64_t c = 0; c < depth_; ++c) {
          to[c] = mixed[c] * factor + origin[c];
        }
      }
    }
  }

  // The gradients by queries, keys and values, from that by `out`.
  void backward(const Given& grad, const Given& q, const Given& k,
                const Given& v, const Real* log_sum, const Rows& dq,
                const Rows& dk, const Rows& dv) {
    make_room_for_gradients();
    take(k, keys_);
    take(v, values_);
    turn(keys_, scale_, keys_across_);
    turn(values_, 1, values_across_);
    for (int64_t first = 0; first < reach_.tokens; first += kQueries) {
      const Block block(*this, first);
      copy(q, block, queries_);
      copy(grad, block, grad_);
      meet(block, queries_, keys_across_, weights_);
      meet(block, grad_, values_across_, slopes_);
      for (int64_t n = 0; n < block.queries; ++n) {
        soften_backward(log_sum[first + n], block, n);
      }
      add_across(block, weights_, grad_, dvalues_);
      add_across(block, slopes_, queries_, dkeys_);
      combine(block, slopes_, keys_, mixed_);
      give(mixed_, block.queries, {dq[first], dq.row});
    }
    give(dkeys_, reach_.tokens, dk);
    give(dvalues_, reach_.tokens, dv);
  }

 private:
  using L = Lanes<Real, kWidestBytes>;
  using Product = TileProduct<Real>;
  using Vector = typename L::Vector;
  using Room = std::vector<Real>;

  // Queries from `first` on and the keys that the last of them sees, filled up
  // to whole vectors.
  struct Block {
    int64_t first, queries, keys, columns;

    Block(const CausalHead& head, int64_t from)
        : first(from),
          queries(std::min(kQueries, head.reach_.tokens - from)),
          keys(head.reach_.keys_seen(from + queries - 1)),
          columns(whole(keys)) {}
  };

  static int64_t whole(int64_t count) {
    return (count + L::kWidth - 1) / L::kWidth * L::kWidth;
  }
  static Room room(int64_t count) { return Room(static_cast<size_t>(count)); }

  void make_room_for_gradients() {
    grad_.resize(queries_.size());
    slopes_.resize(weights_.size());
    values_across_.resize(keys_across_.size());
    dkeys_.assign(keys_.size(), Real(0));
    dvalues_.assign(keys_.size(), Real(0));
  }

  // Rows less that of the origin; the columns behind them stay zeros.
  void take(const Given& from, Room& to) const {
    const Real* origin = from[reach_.origin()];
    for (int64_t n = 0; n < reach_.tokens; ++n) {
      const Real* x = from[n];
      Real* y = to.data() + n * width_;
      for (int64_t c = 0; c < depth_; ++c) y[c] = x[c] - origin[c];
    }
  }
  // (T, width) times a factor as (D, columns).
  void turn(const Room& from, Real factor, Room& to) const {
    for (int64_t n = 0; n < reach_.tokens; ++n) {
      const Real* x = from.data() + n * width_;
      for (int64_t c = 0; c < depth_; ++c) {
        to[static_cast<size_t>(c * columns_ + n)] = factor * x[c];
      }
    }
  }
  void copy(const Given& from, const Block& block, Room& to) const {
    for (int64_t n = 0; n < block.queries; ++n) {
      std::copy_n(from[block.first + n], depth_, to.data() + n * width_);
    }
  }
  void give(const Room& from, int64_t count, const Rows& to) const {
    for (int64_t n = 0; n < count; ++n) {
      std::copy_n(from.data() + n * width_, depth_, to[n]);
    }
  }

  // Products of the block's rows with all keys or values, (queries, columns).
  void meet(const Block& block, const Room& rows, const Room& across,
            Room& to) const {
    Product{.rows = block.queries,
            .inner = depth_,
            .columns = block.columns,
            .a = rows.data(),
            .a_row = width_,
            .b = across.data(),
            .b_row = columns_,
            .c = to.data(),
            .c_row = columns_}
        .run();
  }
  // to_i = Σ_j w_ij x_j
  void combine(const Block& block, const Room& w, const Room& x,
               Room& to) const {
    Product{.rows = block.queries,
            .inner = block.keys,
            .columns = width_,
            .a = w.data(),
            .a_row = columns_,
            .b = x.data(),
            .b_row = width_,
            .c = to.data(),
            .c_row = width_}
        .run();
  }
  // to_j += Σ_i w_ij x_i
  void add_across(const Block& block, const Room& w, const Room& x,
                  Room& to) const {
    Product{.rows = block.keys,
            .inner = block.queries,
            .columns = width_,
            .a = w.data(),
            .a_row = 1,
            .a_step = columns_,
            .b = x.data(),
            .b_row = width_,
            .c = to.data(),
            .c_row = width_,
            .start = to.data(),
            .start_row = width_}
        .run();
  }

  // exp(score - largest) takes the place of the scores; hidden keys have 0.
  Real soften(Real* w, const Block& block, int64_t n) {
    constexpr Real kHidden = -std::numeric_limits<Real>::infinity();
    const int64_t seen = reach_.keys_seen(block.first + n);
    std::fill(w + seen, w + block.columns, kHidden);
    Vector most = Vector{} + kHidden;
    for (int64_t j = 0; j < block.columns; j += L::kWidth) {
      const Vector score = L::load(w + j);
      most = most > score ? most : score;
    }
    Real largest = most[0];
    for (int64_t l = 1; l < L::kWidth; ++l)
      largest = std::max(largest, most[l]);
    for (int64_t j = 0; j < block.columns; ++j) {
      w[j] = exp_or_nan(w[j] - largest);
    }
    Vector sum = {};
    for (int64_t j = 0; j < block.columns; j += L::kWidth)
      sum += L::load(w + j);
    total_[n] = L::sum(sum);
    return largest + std::log(total_[n]);
  }

  // Scores become weights p, and their gradients by p those by the products
  // q · k: p (dp - Σ p dp) / √D.
  void soften_backward(Real log_sum, const Block& block, int64_t n) {
    Real* p = weights_.data() + n * columns_;
    Real* ds = slopes_.data() + n * columns_;
    const int64_t seen = reach_.keys_seen(block.first + n);
    for (int64_t j = 0; j < seen; ++j) p[j] = exp_or_nan(p[j] - log_sum);
    std::fill(p + seen, p + block.columns, Real(0));
    Vector sum = {};
    for (int64_t j = 0; j < block.columns; j += L::kWidth) {
      sum += L::load(p + j) * L::load(ds + j);
    }
    const Real mean = L::sum(sum);
    for (int64_t j = 0; j < block.columns; j += L::kWidth) {
      L::store(scale_ * L::load(p + j) * (L::load(ds + j) - mean), ds + j);
    }
  }

  CausalReach reach_;
  int64_t depth_, width_, columns_;   // and these, as whole vectors
  Real scale_;                        // 1 / √D
  Real total_[kQueries];              // that divides the weights of a query
  Room keys_, values_;                // (T, width)
  Room keys_across_, values_across_;  // (D, columns)
  Room queries_, grad_, mixed_;       // (queries, width)
  Room weights_, slopes_;             // (queries, columns)
  Room dkeys_, dvalues_;              // (T, width)
};

}  // namespace propagator::kernels
