#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

namespace propagator::kernels {

// Sine and cosine of n numbers. In float the loop has no branch and no call,
// so that it vectorises: x is reduced by multiples k of π/2, in three parts so
// that the product with each is exact, and what is left, within ±π/4, goes
// through a polynomial each. Right to 2 units in the last place; numbers beyond
// those that it can reduce go to the library, with all others of the call.
inline void sincos(const float* x, int64_t n, float* sine, float* cosine) {
  // Sizes compare as their bits do, which vectorises; NaN is the largest.
  uint32_t largest = 0;
  for (int64_t i = 0; i < n; ++i) {
    largest = std::max(largest, std::bit_cast<uint32_t>(x[i]) & 0x7fffffffu);
  }
  if (largest > std::bit_cast<uint32_t>(8192.f)) {
    for (int64_t i = 0; i < n; ++i) {
      sine[i] = std::sin(x[i]);
      cosine[i] = std::cos(x[i]);
    }
    return;
  }
  constexpr float kTurns = 0.636619772f;  // 2 / π
  constexpr float kHalfPi[] = {1.5703125f, 4.83751297e-4f, 7.54978995e-8f};
  constexpr float kRound = 12582912.f;  // 1.5 · 2²³: adding it rounds
  for (int64_t i = 0; i < n; ++i) {
    const float shifted = x[i] * kTurns + kRound;
    const float k = shifted - kRound;
    const auto quarter = static_cast<int32_t>(k);
    const float r = ((x[i] - k * kHalfPi[0]) - k * kHalfPi[1]) - k * kHalfPi[2];
    const float r2 = r * r;
    const float s = r + r * r2 *
                            (-1.6666654611e-1f +
                             r2 * (8.3321608736e-3f - 1.9515295891e-4f * r2));
    const float c = 1.f - 0.5f * r2 +
                    r2 * r2 *
                        (4.1666645683e-2f +
                         r2 * (-1.3887316255e-3f + 2.4433157118e-5f * r2));
    const bool odd = (quarter & 1) != 0;
    const float of_sine = odd ? c : s, of_cosine = odd ? s : c;
    sine[i] = (quarter & 2) != 0 ? -of_sine : of_sine;
    cosine[i] = ((quarter + 1) & 2) != 0 ? -of_cosine : of_cosine;
  }
}

inline void sincos(const double* x, int64_t n, double* sine, double* cosine) {
  for (int64_t i = 0; i < n; ++i) {
    sine[i] = std::sin(x[i]);
    cosine[i] = std::cos(x[i]);
  }
}

}  // namespace propagator::kernels
