#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "propagator/kernels/lanes.h"

namespace propagator::kernels {

// tanh, sine and cosine of whole vector registers, in float64 and float32,
// without branch or call: right to a few units in the last place.
template <class Real>
struct VectorMath {
  using Vector = typename Lanes<Real>::Vector;
  static constexpr bool kDouble = std::is_same_v<Real, double>;
  using Whole = std::conditional_t<kDouble, int64_t, int32_t>;
  typedef Whole Bits __attribute__((vector_size(sizeof(Vector))));

  static Bits bits(const Vector& x) {
    Bits all;
    std::memcpy(&all, &x, sizeof all);
    return all;
  }
  static Vector number(const Bits& all) {
    Vector x;
    std::memcpy(&x, &all, sizeof x);
    return x;
  }

  // (e^2x - 1) / (e^2x + 1), with 2|x| = n ln 2 + r and e^2|x| - 1 from
  // e^r - 1, which has no cancellation where x is small.
  static Vector tanh(const Vector& x) {
    const Bits sign = bits(x) & kSign;
    Vector y = number(bits(x) & ~kSign) * Real(2);
    y = y > kFlat ? Vector{} + kFlat : y;  // a NaN stays one
    const Vector shifted = y * kPerLn2 + kRound;
    const Vector n = shifted - kRound;
    const Vector r = (y - n * kLn2High) - n * kLn2Low;
    const Vector power = number((bits(shifted) + kBias) << kMantissa);
    const Vector less_one = power * exp_less_one(r) + (power - Real(1));
    return number(bits(less_one / (less_one + Real(2))) | sign);
  }

  // x is reduced by multiples k of π/2, in three parts so that the product
  // with each is exact; what is left, within ±π/4, goes through a polynomial
  // each. Vectors with numbers beyond those go to the library.
  static void sincos(const Vector& x, Vector& sine, Vector& cosine) {
    const Bits large = number(bits(x) & ~kSign) > kReducible;
    Whole any = 0;
    for (int64_t l = 0; l < Lanes<Real>::kWidth; ++l) any |= large[l];
    if (any != 0) {
      for (int64_t l = 0; l < Lanes<Real>::kWidth; ++l) {
        sine[l] = std::sin(x[l]);
        cosine[l] = std::cos(x[l]);
      }
      return;
    }
    const Vector shifted = x * kPerHalfPi + kRound;
    const Vector k = shifted - kRound;
    const Bits quarter = bits(shifted);
    const Vector r = ((x - k * kHalfPi[0]) - k * kHalfPi[1]) - k * kHalfPi[2];
    const Vector r2 = r * r;
    const Vector s = r + r * r2 * series < kDouble ? 8 : 4 > (kSine, r2);
    const Vector c = Real(1) + r2 * series < kDouble ? 8 : 4 > (kCosine, r2);
    const auto odd = (quarter & 1) != 0;
    sine = odd ? c : s;
    cosine = odd ? s : c;
    sine = number(bits(sine) ^ ((quarter & 2) << kToSign));
    cosine = number(bits(cosine) ^ (((quarter + 1) & 2) << kToSign));
  }

 private:
  static constexpr Whole kSign =
      kDouble ? Whole(int64_t{1} << 63) : Whole(int32_t(0x80000000u));
  static constexpr int kMantissa = kDouble ? 52 : 23;
  static constexpr int kToSign = kDouble ? 62 : 30;
  // Adding it rounds; n is then in the last bits.
  static constexpr Real kRound = kDouble ? 6755399441055744.0 : 12582912.0;
  static constexpr Whole kBias = kDouble ? 1023 : 127;
  static constexpr Real kPerLn2 = 1.4426950408889634;
  static constexpr Real kLn2High = kDouble ? 0x1.62e42fefp-1 : 0x1.62ep-1;
  static constexpr Real kLn2Low =
      kDouble ? 0x1.473de6af278edp-34 : 0x1.0bfbe8p-15;
  static constexpr Real kFlat = kDouble ? 44 : 20;  // tanh is 1 from half on
  static constexpr Real kPerHalfPi = 0.6366197723675814;
  static constexpr Real kHalfPi[] = {
      Real(kDouble ? 0x1.921fb544p+0 : 0x1.92p+0),
      Real(kDouble ? 0x1.0b4611a6p-34 : 0x1.fb4p-12),
      Real(kDouble ? 0x1.3198a2e037073p-69 : 0x1.4442d0p-24)};
  static constexpr Real kReducible = kDouble ? 1e5 : 4096;
  // Taylor's: of the sine over r³, of the cosine and of e^r - 1 - r over r².
  static constexpr double kSine[] = {-1.0 / 6,
                                     1.0 / 120,
                                     -1.0 / 5040,
                                     1.0 / 362880,
                                     -1.0 / 39916800,
                                     1.0 / 6227020800,
                                     -1.0 / 1307674368000,
                                     1.0 / 355687428096000};
  static constexpr double kCosine[] = {
      -1.0 / 2,           1.0 / 24,
      -1.0 / 720,         1.0 / 40320,
      -1.0 / 3628800,     1.0 / 479001600,
      -1.0 / 87178291200, 1.0 / 20922789888000};

  static constexpr double kExp[] = {
      1.0 / 2,       1.0 / 6,        1.0 / 24,        1.0 / 120,
      1.0 / 720,     1.0 / 5040,     1.0 / 40320,     1.0 / 362880,
      1.0 / 3628800, 1.0 / 39916800, 1.0 / 479001600, 1.0 / 6227020800};

  // Σ c_j xʲ
  template <size_t kTerms, size_t kCount>
  static Vector series(const double (&c)[kCount], const Vector& x) {
    Vector sum = Vector{} + Real(c[kTerms - 1]);
    for (size_t j = kTerms - 1; j-- > 0;) sum = sum * x + Real(c[j]);
    return sum;
  }
  // e^r - 1 for |r| ≤ ln 2 / 2.
  static Vector exp_less_one(const Vector& r) {
    return r + r * r * series < kDouble ? 12 : 6 > (kExp, r);
  }
};

}  // namespace propagator::kernels
