#pragma once

#include <cmath>

#include "propagator/kernels/jet_orders.h"

namespace propagator::kernels {

// Softmax of `n` numbers through a jet: number j of row m is s[m · stride + j],
// and so for the weights p. With w_1 = s_1, w_2 = s_2 + s_1²/2, Z_k = Σ p_0
// w_k:
//   p_1 = p_0 (w_1 - Z_1),  p_2 = p_0 (w_2 - w_1 Z_1 + Z_1² - Z_2).
template <class Real>
PROPAGATOR_HOST_DEVICE void jet_softmax(const Real* s, Real* p, int64_t stride,
                                        int64_t n, const JetOrders& o) {
  Real largest = s[0], sum = 0;
  for (int64_t j = 1; j < n; ++j) largest = largest < s[j] ? s[j] : largest;
  for (int64_t j = 0; j < n; ++j) sum += p[j] = std::exp(s[j] - largest);
  for (int64_t j = 0; j < n; ++j) p[j] /= sum;
  for (int64_t r = 1; r <= o.first; ++r) {
    const Real* s1 = s + r * stride;
    Real* p1 = p + r * stride;
    Real z1 = 0, z2 = 0;
    for (int64_t j = 0; j < n; ++j) z1 += p[j] * s1[j];
    for (int64_t j = 0; j < n; ++j) p1[j] = p[j] * (s1[j] - z1);
    if (r > o.second) continue;
    const Real* s2 = s + o.second_row(r) * stride;
    Real* p2 = p + o.second_row(r) * stride;
    const auto w2 = [&](int64_t j) { return s2[j] + s1[j] * s1[j] / 2; };
    for (int64_t j = 0; j < n; ++j) z2 += p[j] * w2(j);
    for (int64_t j = 0; j < n; ++j) {
      p2[j] = p[j] * (w2(j) - s1[j] * z1 + z1 * z1 - z2);
    }
  }
}

// d, from the gradient by the weights to that by the scores.
template <class Real>
PROPAGATOR_HOST_DEVICE void jet_softmax_backward(const Real* s, const Real* p,
                                                 Real* d, int64_t stride,
                                                 int64_t n,
                                                 const JetOrders& o) {
  for (int64_t r = 1; r <= o.first; ++r) {
    const bool second = r <= o.second;
    const Real* s1 = s + r * stride;
    const Real* s2 = s + o.second_row(r) * stride;
    Real* d1 = d + r * stride;
    Real* d2 = d + o.second_row(r) * stride;
    const auto w2 = [&](int64_t j) { return s2[j] + s1[j] * s1[j] / 2; };
    Real z1 = 0, z2 = 0, dz1 = 0, dz2 = 0;
    for (int64_t j = 0; j < n; ++j) {
      z1 += p[j] * s1[j];
      if (second) z2 += p[j] * w2(j);
    }
    for (int64_t j = 0; j < n; ++j) {
      dz1 -= p[j] * d1[j];
      if (!second) continue;
      dz1 += p[j] * d2[j] * (2 * z1 - s1[j]);
      dz2 -= p[j] * d2[j];
    }
    // d[j] grows to the whole gradient by p_0.
    for (int64_t j = 0; j < n; ++j) {
      Real by_w1 = p[j] * (d1[j] + dz1);
      d[j] += d1[j] * (s1[j] - z1) + s1[j] * dz1;
      if (second) {
        const Real w = w2(j), g2 = d2[j];
        d[j] += g2 * (w - s1[j] * z1 + z1 * z1 - z2) + w * dz2;
        const Real by_w2 = p[j] * (g2 + dz2);
        by_w1 += -p[j] * g2 * z1 + s1[j] * by_w2;
        d2[j] = by_w2;
      }
      d1[j] = by_w1;
    }
  }
  Real mean = 0;
  for (int64_t j = 0; j < n; ++j) mean += p[j] * d[j];
  for (int64_t j = 0; j < n; ++j) d[j] = p[j] * (d[j] - mean);
}

}  // namespace propagator::kernels
