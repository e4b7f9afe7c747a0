#pragma once

#include <torch/types.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "propagator/kernels/exp.h"
#include "propagator/kernels/jet/jet_orders.h"
#include "propagator/kernels/tile_product.h"

// How the CPU computes jet_cross_attention.h: all tokens for a few points.
namespace propagator::kernels {

// So many points meet all tokens at once: their scores stay in the cache.
inline constexpr int64_t kCrossPoints = 4;

struct CrossShape {
  int64_t points, tokens, width, heads;  // N, T, C, H
  JetOrders orders;
  int64_t depth() const { return width / heads; }
  int64_t rows() const { return orders.rows(); }
  // Tokens filled up to whole vectors.
  template <class Real>
  int64_t columns() const {
    constexpr int64_t kCount = Lanes<Real>::kCount;
    return (tokens + kCount - 1) / kCount * kCount;
  }
};

// Keys or values, (T, C), by heads.
struct CrossTokens {
  torch::Tensor along;   // (H, T, D)
  torch::Tensor across;  // (H, D, T filled up with zeros)
};

template <class Real>
CrossTokens cross_tokens(const torch::Tensor& x, const CrossShape& s) {
  const auto along =
      x.view({s.tokens, s.heads, s.depth()}).transpose(0, 1).contiguous();
  const auto across =
      torch::zeros({s.heads, s.depth(), s.columns<Real>()}, x.options());
  across.slice(2, 0, s.tokens).copy_(along.transpose(1, 2));
  return {along, across};
}

// The points of a tile and the tokens of one head. Row m of point i is line
// i M + m of each matrix.
template <class Real>
class CrossTile {
 public:
  CrossTile(const CrossShape& s, const CrossTokens& keys,
            const CrossTokens& values)
      : s_(s),
        columns_(s.columns<Real>()),
        keys_(keys),
        values_(values),
        queries_(room(s.depth())),
        answers_(room(s.depth())),
        scores_(room(columns_)),
        weights_(room(columns_)),
        slopes_(room(columns_)) {}

  // What is read of, and written to, rows (M, N, C) of these points.
  void choose(int64_t point, int64_t head) {
    first_ = point;
    count_ = std::min(kCrossPoints, s_.points - point);
    head_ = head;
  }
  int64_t count() const { return count_; }
  Real* answer(int64_t i) { return &answers_[line(i, 0, s_.depth())]; }

  void read(const torch::Tensor& rows, Real factor,
            std::vector<Real>& to) const {
    const Real* from = rows.data_ptr<Real>();
    for_lines([&](int64_t at, int64_t in_tile) {
      for (int64_t c = 0; c < s_.depth(); ++c) {
        to[in_tile + c] = factor * from[at + c];
      }
    });
  }
  void write(const std::vector<Real>& rows, Real factor,
             torch::Tensor& to) const {
    Real* target = to.data_ptr<Real>();
    for_lines([&](int64_t at, int64_t in_tile) {
      for (int64_t c = 0; c < s_.depth(); ++c) {
        target[at + c] = factor * rows[in_tile + c];
      }
    });
  }

  // Queries over √D, and their scores.
  void ask(const torch::Tensor& q) {
    read(q, scale(), queries_);
    meet(queries_, keys_, scores_);
  }

  // w t_m of point i from its scores; → log Σ exp s_0 and centres.
  void soften(int64_t i, Real* sums) {
    Real* s = &scores_[line(i, 0, columns_)];
    Real* w = &weights_[line(i, 0, columns_)];
    const Real peak = *std::max_element(s, s + s_.tokens);
    exponentials(s, peak, w);
    const Real sum = total(w);
    for (int64_t j = 0; j < s_.tokens; ++j) w[j] /= sum;
    sums[0] = peak + std::log(sum);
    terms(s, w, sums, true);
  }
  // The same again, with these.
  void weigh(int64_t i, Real* sums) {
    Real* s = &scores_[line(i, 0, columns_)];
    Real* w = &weights_[line(i, 0, columns_)];
    exponentials(s, sums[0], w);
    terms(s, w, sums, false);
  }

  // Σ w t_m v of all points.
  void mix() {
    std::fill(answers_.begin(), answers_.end(), Real(0));
    combine(weights_, values_, answers_);
  }

  // From `answers`, the gradients by Σ w t_m v, to those by w t_m, as products
  // with the values.
  void meet_values() { meet(answers_, values_, slopes_); }

  // From there to gradients by the scores, of point i:
  //   by s_0: w Σ t_m y_m,  by s_1: w (y_1 ± t_1 y_2),  by s_2: w y_2,
  // y_m being less what the centres, and the sum of w, take away.
  void descend(int64_t i, const Real* taken) {
    const Real* t = &scores_[line(i, 0, columns_)];
    const Real* w = &weights_[line(i, 0, columns_)];
    Real* y = &slopes_[line(i, 0, columns_)];
    const auto& o = s_.orders;
    for (int64_t m = 0; m < s_.rows(); ++m) {
      Real* by = y + m * columns_;
      for (int64_t j = 0; j < columns_; ++j) by[j] -= taken[m];
    }
    for (int64_t j = 0; j < columns_; ++j) y[j] *= w[j];
    for (int64_t m = 1; m < s_.rows(); ++m) {
      const Real *weight = w + m * columns_, *by = y + m * columns_;
      for (int64_t j = 0; j < columns_; ++j) y[j] += weight[j] * by[j];
    }
    for (int64_t r = 1; r <= o.first; ++r) {
      const Real sign = static_cast<Real>(o.sign(r));
      const Real *t1 = t + r * columns_, *y2 = y + o.second_row(r) * columns_;
      Real* y1 = y + r * columns_;
      for (int64_t j = 0; j < columns_; ++j) {
        const Real more = r <= o.second ? sign * t1[j] * y2[j] : 0;
        y1[j] = w[j] * (y1[j] + more);
      }
    }
    for (int64_t m = o.first + 1; m < s_.rows(); ++m) {
      Real* by = y + m * columns_;
      for (int64_t j = 0; j < columns_; ++j) by[j] *= w[j];
    }
  }

  // Adds what the tile says of keys and values, (H, T, D) each, and leaves the
  // gradient by its queries in their place.
  void spread(Real* by_keys, Real* by_values) {
    collect(slopes_, queries_, by_keys);
    collect(weights_, answers_, by_values);
    std::fill(queries_.begin(), queries_.end(), Real(0));
    combine(slopes_, keys_, queries_);
  }

  std::vector<Real>& queries() { return queries_; }
  std::vector<Real>& answers() { return answers_; }
  Real scale() const { return 1 / std::sqrt(static_cast<Real>(s_.depth())); }

 private:
  std::vector<Real> room(int64_t columns) const {
    return std::vector<Real>(
        static_cast<size_t>(kCrossPoints * s_.rows() * columns));
  }
  size_t line(int64_t i, int64_t m, int64_t columns) const {
    return static_cast<size_t>((i * s_.rows() + m) * columns);
  }
  // `work(place in (M, N, C), place in the tile)`.
  template <class Work>
  void for_lines(Work&& work) const {
    for (int64_t i = 0; i < count_; ++i) {
      for (int64_t m = 0; m < s_.rows(); ++m) {
        work((m * s_.points + first_ + i) * s_.width + head_ * s_.depth(),
             line(i, m, s_.depth()));
      }
    }
  }
  Real total(const Real* x) const {
    Lanes<Real> sums;
    for (int64_t j = 0; j < columns_; j += sums.kCount) sums.add(x + j);
    return sums.sum();
  }

  // exp(s - base), and 0 for tokens that are not there.
  void exponentials(const Real* s, Real base, Real* w) const {
    for (int64_t j = 0; j < s_.tokens; ++j) {
      w[j] = exp_of_negative(std::min(s[j] - base, Real(0)));
    }
    std::fill(w + s_.tokens, w + columns_, Real(0));
  }

  // t_m in place of s_m, and w, in the first row, times them. Centres are
  // those given, or found.
  void terms(Real* s, Real* w, Real* centres, bool find) const {
    const auto& o = s_.orders;
    const auto centre = [&](int64_t m) {
      Real* x = s + m * columns_;
      if (find) centres[m] = mean(w, x);
      for (int64_t j = 0; j < columns_; ++j) x[j] -= centres[m];
      for (int64_t j = 0; j < columns_; ++j) w[m * columns_ + j] = w[j] * x[j];
    };
    for (int64_t r = 1; r <= o.first; ++r) {
      centre(r);
      if (r > o.second) continue;
      const Real* t1 = s + r * columns_;
      Real* s2 = s + o.second_row(r) * columns_;
      const Real half = Real(0.5) * static_cast<Real>(o.sign(r));
      for (int64_t j = 0; j < columns_; ++j) s2[j] += half * t1[j] * t1[j];
      if (o.closes(r)) centre(o.second_row(r));
    }
  }
  Real mean(const Real* w, const Real* x) const {
    Lanes<Real> sums;
    for (int64_t j = 0; j < columns_; j += sums.kCount) {
      sums.add_product(w + j, x + j);
    }
    return sums.sum();
  }

  int64_t lines() const { return count_ * s_.rows(); }
  const Real* of_head(const torch::Tensor& x) const {
    return x.data_ptr<Real>() + head_ * x.size(1) * x.size(2);
  }
  // to = rows · tokensᵀ
  void meet(const std::vector<Real>& rows, const CrossTokens& tokens,
            std::vector<Real>& to) const {
    TileProduct<Real>{.rows = lines(),
                      .inner = s_.depth(),
                      .columns = columns_,
                      .a = rows.data(),
                      .a_row = s_.depth(),
                      .b = of_head(tokens.across),
                      .b_row = columns_,
                      .c = to.data(),
                      .c_row = columns_}
        .run();
  }
  // to += weights · tokens
  void combine(const std::vector<Real>& weights, const CrossTokens& tokens,
               std::vector<Real>& to) const {
    TileProduct<Real>{.rows = lines(),
                      .inner = s_.tokens,
                      .columns = s_.depth(),
                      .a = weights.data(),
                      .a_row = columns_,
                      .b = of_head(tokens.along),
                      .b_row = s_.depth(),
                      .c = to.data(),
                      .c_row = s_.depth(),
                      .start = to.data(),
                      .start_row = s_.depth()}
        .run();
  }
  // to (H, T, D) += weightsᵀ · rows, of the head
  void collect(const std::vector<Real>& weights, const std::vector<Real>& rows,
               Real* all) const {
    Real* to = all + head_ * s_.tokens * s_.depth();
    TileProduct<Real>{.rows = s_.tokens,
                      .inner = lines(),
                      .columns = s_.depth(),
                      .a = weights.data(),
                      .a_row = 1,
                      .a_step = columns_,
                      .b = rows.data(),
                      .b_row = s_.depth(),
                      .c = to,
                      .c_row = s_.depth(),
                      .start = to,
                      .start_row = s_.depth()}
        .run();
  }

  CrossShape s_;
  int64_t columns_;
  CrossTokens keys_, values_;
  std::vector<Real> queries_, answers_, scores_, weights_, slopes_;
  int64_t first_ = 0, count_ = 0, head_ = 0;
};

}  // namespace propagator::kernels
