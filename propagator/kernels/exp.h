#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <type_traits>

namespace propagator::kernels {

// eˣ for x ≤ 0, right to two units in the last place; below -88, and so at -∞,
// exactly 0. In float it has no branch and no call, so that a loop over it
// vectorises: x = n ln 2 + r with |r| ≤ ln 2 / 2, and the Taylor polynomial of
// eʳ.
inline float exp_of_negative(float x) {
  constexpr float kMost = 88.1f;           // n = -127, whose power of 2 is 0
  constexpr float kRound = 12582912.f;     // 1.5 · 2²³: adding it rounds
  constexpr float kPerLn2 = 1.44269504f;   // 1 / ln 2
  constexpr float kHigh = 0.693359375f;    // ln 2 in two parts, of which the
  constexpr float kLow = -2.12194440e-4f;  // first times n is exact
  // The bits of positive numbers are in their order, and the smaller of whole
  // numbers is no branch.
  const auto bits = std::min(std::bit_cast<int32_t>(std::fabs(x)),
                             std::bit_cast<int32_t>(kMost));
  const float inside = -std::bit_cast<float>(bits);
  const float n = (inside * kPerLn2 + kRound) - kRound;
  const float r = (inside - n * kHigh) - n * kLow;
  float p = 1.f / 5040;
  p = p * r + 1.f / 720;
  p = p * r + 1.f / 120;
  p = p * r + 1.f / 24;
  p = p * r + 1.f / 6;
  p = p * r + 0.5f;
  p = p * r + 1.f;
  p = p * r + 1.f;
  const int32_t power = (static_cast<int32_t>(n) + 127) << 23;
  return p * std::bit_cast<float>(power);
}

inline double exp_of_negative(double x) { return std::exp(x); }

// Bits of one or the other: a choice of numbers becomes a branch, and a loop
// with it does not vectorise.
template <class Real>
Real pick(bool which, Real a, Real b) {
  using Bits = std::conditional_t<sizeof(Real) == 4, int32_t, int64_t>;
  const Bits mask = -static_cast<Bits>(which);
  return std::bit_cast<Real>((std::bit_cast<Bits>(a) & mask) |
                             (std::bit_cast<Bits>(b) & ~mask));
}

// eˣ for x ≤ 0; not a number stays that.
template <class Real>
Real exp_or_nan(Real x) {
  return pick(x == x, exp_of_negative(x), x);
}

}  // namespace propagator::kernels
