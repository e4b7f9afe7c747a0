#pragma once

#include <cmath>

#include "propagator/kernels/jet/jet_orders.h"

namespace propagator::kernels {

// Softmax of `n` numbers through a jet: number j of row m is s[m · stride + j],
// and so for the weights p. With means ⟨x⟩ = Σ p_0 x and c = s_1 - ⟨s_1⟩,
//   p_1 = p_0 c,  p_2 = p_0 (v - ⟨v⟩),  v = s_2 + c² / 2,
// where s_2 and c² / 2 may be sums over directions.
template <class Real>
PROPAGATOR_HOST_DEVICE Real jet_softmax_mean(const Real* p, const Real* x,
                                             int64_t n) {
  Real mean = 0;
  for (int64_t j = 0; j < n; ++j) mean += p[j] * x[j];
  return mean;
}

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
    const Real mean = jet_softmax_mean(p, s1, n);
    for (int64_t j = 0; j < n; ++j) p1[j] = p[j] * (s1[j] - mean);
    if (r > o.second) continue;
    const Real* s2 = s + o.second_row(r) * stride;
    Real* v = p + o.second_row(r) * stride;  // p_2 in the end
    const Real half = Real(0.5) * static_cast<Real>(o.sign(r));
    for (int64_t j = 0; j < n; ++j) {
      const Real c = s1[j] - mean;
      v[j] = (o.opens(r) ? s2[j] : v[j]) + half * c * c;
    }
    if (!o.closes(r)) continue;
    const Real centre = jet_softmax_mean(p, v, n);
    for (int64_t j = 0; j < n; ++j) v[j] = p[j] * (v[j] - centre);
  }
}

// d, from the gradient by the weights to that by the scores. With g_k the
// gradient by p_k and b_v = p_0 (g_2 - ⟨g_2⟩) that by v and by s_2:
//   by c:   b_c = p_0 g_1 ± b_v c,       by s_1: b_c - p_0 Σ b_c,
//   by p_0: g_0 + g_1 c + g_2 (v - ⟨v⟩) - v ⟨g_2⟩ - s_1 Σ b_c.
template <class Real>
PROPAGATOR_HOST_DEVICE void jet_softmax_backward(const Real* s, const Real* p,
                                                 Real* d, int64_t stride,
                                                 int64_t n,
                                                 const JetOrders& o) {
  for (int64_t r = 1; r <= o.first; ++r) {
    const int64_t second = o.second_row(r);
    const Real* s1 = s + r * stride;
    const Real* p2 = p + second * stride;
    Real* d1 = d + r * stride;
    Real* d2 = d + second * stride;
    if (second > 0 && o.opens(r)) {
      const Real mean = jet_softmax_mean(p, d2, n);
      for (int64_t j = 0; j < n; ++j) {
        // v enters as p_2 / p_0, up to ⟨v⟩ ⟨g_2⟩, which all j share and the
        // softmax of the value takes away.
        const Real spread = d2[j] - mean;
        d[j] += spread * (p[j] > 0 ? p2[j] / p[j] : 0);
        d2[j] = p[j] * spread;
      }
    }
    const Real mean = jet_softmax_mean(p, s1, n);
    const Real sign = static_cast<Real>(o.sign(r));
    Real sum = 0;
    for (int64_t j = 0; j < n; ++j) {
      const Real c = s1[j] - mean;
      d[j] += d1[j] * c;
      d1[j] = p[j] * d1[j] + (second > 0 ? sign * d2[j] * c : 0);
      sum += d1[j];
    }
    for (int64_t j = 0; j < n; ++j) {
      d[j] -= s1[j] * sum;
      d1[j] -= p[j] * sum;
    }
  }
  const Real mean = jet_softmax_mean(p, d, n);
  for (int64_t j = 0; j < n; ++j) d[j] = p[j] * (d[j] - mean);
}

}  // namespace propagator::kernels
