#pragma once

#include "propagator/kernels/jet/jet_series.h"
#include "propagator/kernels/vector_math.h"

namespace propagator::kernels {

enum class JetActivation { kTanh, kSine };

// The rows of one unit at the points of a vector: row m is at m · stride.
template <class Real>
struct UnitRows {
  Real* at;
  int64_t stride;

  using Vector = typename Lanes<Real>::Vector;
  Vector operator[](int64_t m) const {
    return Lanes<Real>::load(at + m * stride);
  }
  void set(int64_t m, const Vector& x) const {
    Lanes<Real>::store(x, at + m * stride);
  }
};

// An activation f of a jet z, point by point, to order K = kOrder: with f_j =
// f⁽ʲ⁾(z_0) / j!, along each direction
//   y_1 = f_1 z_1,   y_2 = f_1 z_2 + f_2 z_1²,
//   y_3 = f_1 z_3 + 2 f_2 z_1 z_2 + f_3 z_1³,
//   y_4 = f_1 z_4 + f_2 (2 z_1 z_3 + z_2²) + 3 f_3 z_1² z_2 + f_4 z_1⁴.
template <class Real, int kOrder>
struct ActivatedJet {
  using Vector = typename Lanes<Real>::Vector;

  Vector f[kOrder + 2];

  // f_2 … f_(K+1) from f_0 and f_1.
  void complete(JetActivation activation) {
    if (activation == JetActivation::kTanh) {  // f' = 1 - f²
      for (int j = 1; j <= kOrder; ++j) {
        Vector square = f[0] * f[j];
        for (int i = 1; i <= j; ++i) square += f[i] * f[j - i];
        f[j + 1] = square * Real(-1.0 / (j + 1));
      }
    } else {  // f'' = -f
      for (int j = 2; j <= kOrder + 1; ++j) {
        f[j] = f[j - 2] * Real(-1.0 / (j * (j - 1)));
      }
    }
  }

  // Fills y and, for the backward pass, f_1.
  void forward(JetActivation activation, const JetSeries& series,
               const UnitRows<Real>& z, const UnitRows<Real>& y, Real* slope) {
    if (activation == JetActivation::kTanh) {
      f[0] = VectorMath<Real>::tanh(z[0]);
      f[1] = Real(1) - f[0] * f[0];
    } else {
      VectorMath<Real>::sincos(z[0], f[0], f[1]);
    }
    complete(activation);
    Lanes<Real>::store(f[1], slope);
    y.set(0, f[0]);
    for (const auto& d : series.directions) {
      const Vector z1 = z[d.row[1]];
      y.set(d.row[1], f[1] * z1);
      if constexpr (kOrder >= 2) {
        if (d.order < 2) continue;
        const Vector z2 = z[d.row[2]], bent = f[2] * z1 * z1;
        y.set(d.row[2], d.opens ? f[1] * z2 + bent * Real(d.sign)
                                : y[d.row[2]] + bent * Real(d.sign));
        if constexpr (kOrder >= 3) {
          if (d.order < 3) continue;
          const Vector z3 = z[d.row[3]];
          y.set(d.row[3],
                f[1] * z3 + z1 * (Real(2) * f[2] * z2 + f[3] * z1 * z1));
          if constexpr (kOrder >= 4) {
            if (d.order < 4) continue;
            const Vector z11 = z1 * z1;
            y.set(d.row[4], f[1] * z[d.row[4]] +
                                f[2] * (Real(2) * z1 * z3 + z2 * z2) +
                                z11 * (Real(3) * f[3] * z2 + f[4] * z11));
          }
        }
      }
    }
  }

  // From the gradient by y, in `d`, that by z, in the same place. f_0 is y's
  // value, f_1 what the forward pass kept.
  void backward(JetActivation activation, const JetSeries& series,
                const UnitRows<Real>& z, const UnitRows<Real>& y,
                const Real* slope, const UnitRows<Real>& grad) {
    f[0] = y[0];
    f[1] = Lanes<Real>::load(slope);
    complete(activation);
    // With f_j' = (j + 1) f_(j+1).
    Vector g[kOrder + 1];
    for (int j = 0; j <= kOrder; ++j) g[j] = f[j + 1] * Real(j + 1);
    Vector g0 = grad[0] * g[0];
    for (const auto& d : series.directions) {
      const Vector z1 = z[d.row[1]], y1 = grad[d.row[1]];
      g0 += y1 * g[1] * z1;
      Vector g1 = y1 * f[1];
      if constexpr (kOrder >= 2) {
        if (d.order >= 2) {
          g1 += second(d, z, grad, z1, g, g0);
        }
      }
      grad.set(d.row[1], g1);
    }
    // What one row sums has been read by all directions.
    if constexpr (kOrder >= 2) {
      for (const auto& d : series.directions) {
        if (d.order == 2 && d.opens) {
          grad.set(d.row[2], grad[d.row[2]] * f[1]);
        }
      }
    }
    grad.set(0, g0);
  }

 private:
  // The part of orders 2 and more of a direction: adds to the gradient by z_0,
  // sets that by z_3 and z_4, and by z_2 if there are any, and returns what
  // comes to z_1.
  Vector second(const JetSeries::Direction& d, const UnitRows<Real>& z,
                const UnitRows<Real>& grad, const Vector& z1, const Vector* g,
                Vector& g0) const {
    const Vector y2 = grad[d.row[2]], z2 = z[d.row[2]];
    const Real sign = Real(d.sign);
    const Vector z11 = z1 * z1;
    if (d.opens) g0 += y2 * g[1] * z2;
    g0 += sign * y2 * g[2] * z11;
    Vector g1 = sign * y2 * (Real(2) * f[2]) * z1;
    if constexpr (kOrder >= 3) {
      if (d.order < 3) return g1;
      const Vector y3 = grad[d.row[3]], z3 = z[d.row[3]];
      g0 += y3 * (g[1] * z3 + z1 * (Real(2) * g[2] * z2 + g[3] * z11));
      g1 += y3 * (Real(2) * f[2] * z2 + Real(3) * f[3] * z11);
      Vector g2 = y2 * f[1] + y3 * (Real(2) * f[2]) * z1;
      Vector g3 = y3 * f[1];
      if constexpr (kOrder >= 4) {
        if (d.order >= 4) {
          const Vector y4 = grad[d.row[4]], z4 = z[d.row[4]];
          g0 += y4 * (g[1] * z4 + g[2] * (Real(2) * z1 * z3 + z2 * z2) +
                      z11 * (Real(3) * g[3] * z2 + g[4] * z11));
          g1 += y4 * (Real(2) * f[2] * z3 + Real(6) * f[3] * z1 * z2 +
                      Real(4) * f[4] * z11 * z1);
          g2 += y4 * (Real(2) * f[2] * z2 + Real(3) * f[3] * z11);
          g3 += y4 * (Real(2) * f[2]) * z1;
          grad.set(d.row[4], y4 * f[1]);
        }
      }
      grad.set(d.row[2], g2);
      grad.set(d.row[3], g3);
    }
    return g1;
  }
};

}  // namespace propagator::kernels
