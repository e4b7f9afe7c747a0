#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace propagator::kernels {

// log x for normal x > 0, right to 2e-7 of the larger of |log x| and 1; what it
// gives elsewhere means nothing. In float it has no branch and no call, so that
// a loop over it vectorises: x = 2ⁿ m with √½ ≤ m < √2, and
// log m = 2 artanh s with s = (m - 1) / (m + 1), |s| < 0.172, by its series.
inline float log_of_positive(float x) {
  constexpr int32_t kRootHalf = 0x3f3504f3;  // the bits of √½
  constexpr float kHigh = 0.693359375f;      // ln 2 in two parts, of which the
  constexpr float kLow = -2.12194440e-4f;    // first times n is exact
  const auto bits = std::bit_cast<int32_t>(x);
  const int32_t n = (bits - kRootHalf) >> 23;
  const float m = std::bit_cast<float>(bits - (n << 23));
  const float s = (m - 1.f) / (m + 1.f);
  const float square = s * s;
  float p = 1.f / 9;
  p = p * square + 1.f / 7;
  p = p * square + 1.f / 5;
  p = p * square + 1.f / 3;
  const float power = static_cast<float>(n);
  return power * kHigh + (power * kLow + 2.f * (s + s * square * p));
}

inline double log_of_positive(double x) { return std::log(x); }

}  // namespace propagator::kernels
