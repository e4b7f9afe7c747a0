#pragma once

#include "propagator/kernels/jet/jet_orders.h"

// One entry of jet_film.h, or a vector of them, with its derivatives: what the
// CPU's kernel and CUDA's share.
namespace propagator::kernels {

template <class Real>
struct JetFilm {
  int64_t points, features;
  JetOrders orders;
  Real w0;
  const Real *x, *film;  // (M, N, F), (M, N, 3F)
};

template <class Real>
struct JetFilmGradients {
  const Real* dy;
  Real *dx, *dfilm;
};

// A row of the inputs, or the gradients by them.
template <class V>
struct FilmRow {
  V x{}, gamma{}, beta{}, omega{};
};

// With a = γ x + β and z = ω a, w0 in ω, each a product of jets, and S and C
// the sine and cosine of z_0:
//   y_0 = S,  y_1 = C z_1,  y_2 = C z_2 - S z_1² / 2,
// where x_2 and z_1² / 2 may be sums over directions. Rows are read once, one
// direction after the other. `Math` has the type Vector, and load, store and
// sincos for it.
template <class Real, class Math>
class FilmEntry {
 public:
  using V = typename Math::Vector;

  PROPAGATOR_HOST_DEVICE FilmEntry(const JetFilm<Real>& of, int64_t point,
                                   int64_t feature)
      : of_(of),
        at_(point * of.features + feature),
        film_at_(3 * point * of.features + feature),
        value_(row(0)),
        a_(value_.gamma * value_.x + value_.beta) {
    Math::sincos(value_.omega * a_, &sine_, &cosine_);
  }

  PROPAGATOR_HOST_DEVICE void forward(Real* y) const {
    const auto write = [&](int64_t m, V z) {
      Math::store(z, y + m * of_.points * of_.features + at_);
    };
    write(0, sine_);
    Shared shared;
    for (int64_t r = 1; r <= of_.orders.first; ++r) {
      const auto q = row(r);
      const auto [a, z] = first_order(q);
      write(r, cosine_ * z);
      if (of_.orders.second_row(r) == 0) continue;
      if (of_.orders.opens(r)) shared = {};
      shared.add(sign(r), q, a, z);
      if (!of_.orders.closes(r)) continue;
      const int64_t second = of_.orders.second_row(r);
      const auto [a2, z2] = second_order(row(second), shared);
      write(second, cosine_ * z2 - Real(0.5) * sine_ * shared.squares);
    }
  }

  // With the gradients of z from those of y,
  //   dz_1 = C dy_1 - S z_1 dy_2,  dz_2 = C dy_2,
  //   dz_0 = C (dy_0 - Σ dy_2 z_1² / 2) - S Σ (dy_1 z_1 + dy_2 z_2),
  // and of factors from those of a product p q,
  //   dp_0 = Σ dz_m q_m,  dp_1 = dz_1 q_0 + dz_2 q_1,  dp_2 = dz_2 q_0.
  PROPAGATOR_HOST_DEVICE void backward(
      const JetFilmGradients<Real>& with) const {
    FilmRow<V> by;  // the value; `beta` is by a
    V along{}, curved{}, dy2{}, dz2{}, da2{};
    Shared shared;
    for (int64_t r = 1; r <= of_.orders.first; ++r) {
      const int64_t second = of_.orders.second_row(r);
      const auto q = row(r);
      const auto [a, z] = first_order(q);
      const V dy = gradient(with, r);
      V dz = cosine_ * dy;
      along += dy * z;
      if (second > 0) {
        if (of_.orders.opens(r)) {
          shared = {};
          dy2 = gradient(with, second);
          dz2 = cosine_ * dy2;
          da2 = dz2 * value_.omega;
        }
        shared.add(sign(r), q, a, z);
        const V slope = sign(r) * z * dy2;
        dz -= sine_ * slope;
        curved += slope * z;
      }
      by.omega += dz * a;
      by.beta += dz * q.omega;
      FilmRow<V> d{.beta = dz * value_.omega, .omega = dz * a_};
      if (second > 0) {
        d.beta += sign(r) * dz2 * q.omega;
        d.omega += sign(r) * dz2 * a;
      }
      by.gamma += d.beta * q.x;
      by.x += d.beta * q.gamma;
      d.gamma = d.beta * value_.x;
      d.x = d.beta * value_.gamma;
      if (second > 0) {
        d.gamma += sign(r) * da2 * q.x;
        d.x += sign(r) * da2 * q.gamma;
      }
      write(with, r, d);
      if (second == 0 || !of_.orders.closes(r)) continue;
      const auto t = row(second);
      const auto [a2, z2] = second_order(t, shared);
      along += dy2 * z2;
      by.omega += dz2 * a2;
      by.beta += dz2 * t.omega;
      by.gamma += da2 * t.x;
      by.x += da2 * t.gamma;
      write(with, second, {da2 * value_.gamma, da2 * value_.x, da2, dz2 * a_});
    }
    const V dz =
        cosine_ * (gradient(with, 0) - Real(0.5) * curved) - sine_ * along;
    by.beta += dz * value_.omega;
    by.omega += dz * a_;
    by.gamma += by.beta * value_.x;
    by.x += by.beta * value_.gamma;
    write(with, 0, by);
  }

 private:
  // γ x + β and ω times it, or their coefficients.
  struct Both {
    V a, z;
  };
  // What the directions that share a row of x_2 add to it.
  struct Shared {
    V a{}, z{}, squares{};

    PROPAGATOR_HOST_DEVICE void add(Real sign, const FilmRow<V>& q, V a1,
                                    V z1) {
      a += sign * q.gamma * q.x;
      z += sign * q.omega * a1;
      squares += sign * z1 * z1;
    }
  };

  PROPAGATOR_HOST_DEVICE Real sign(int64_t r) const {
    return static_cast<Real>(of_.orders.sign(r));
  }
  PROPAGATOR_HOST_DEVICE const Real* film(int64_t m) const {
    return of_.film + 3 * m * of_.points * of_.features + film_at_;
  }
  PROPAGATOR_HOST_DEVICE FilmRow<V> row(int64_t m) const {
    return {Math::load(of_.x + m * of_.points * of_.features + at_),
            Math::load(film(m)), Math::load(film(m) + of_.features),
            of_.w0 * Math::load(film(m) + 2 * of_.features)};
  }
  PROPAGATOR_HOST_DEVICE V gradient(const JetFilmGradients<Real>& with,
                                    int64_t m) const {
    return Math::load(with.dy + m * of_.points * of_.features + at_);
  }
  PROPAGATOR_HOST_DEVICE void write(const JetFilmGradients<Real>& with,
                                    int64_t m, const FilmRow<V>& d) const {
    Math::store(d.x, with.dx + m * of_.points * of_.features + at_);
    Real* to = with.dfilm + 3 * m * of_.points * of_.features + film_at_;
    Math::store(d.gamma, to);
    Math::store(d.beta, to + of_.features);
    Math::store(of_.w0 * d.omega, to + 2 * of_.features);
  }
  PROPAGATOR_HOST_DEVICE Both first_order(const FilmRow<V>& q) const {
    const V a = value_.gamma * q.x + q.gamma * value_.x + q.beta;
    return {a, value_.omega * a + q.omega * a_};
  }
  PROPAGATOR_HOST_DEVICE Both second_order(const FilmRow<V>& t,
                                           const Shared& shared) const {
    const V a = value_.gamma * t.x + t.gamma * value_.x + shared.a + t.beta;
    return {a, value_.omega * a + t.omega * a_ + shared.z};
  }

  const JetFilm<Real>& of_;
  int64_t at_, film_at_;
  FilmRow<V> value_;
  V a_, sine_, cosine_;
};

}  // namespace propagator::kernels
