#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <numbers>

#include "propagator/kernels/exp.h"

namespace propagator::kernels {

// The normal distribution: how much of it is below x, and its density there.
template <class Real>
struct NormalAt {
  Real below, density;
};

// e^(z²) erfc(z) for z ≥ 0 as a Chebyshev series in t = 2 / (2 + z), which
// takes all of it to (0, 1], where it is smooth. Fourteen terms are right to
// the last places of a float.
class ScaledErfc {
 public:
  ScaledErfc() {
    constexpr size_t kNodes = 64;
    std::array<double, kTerms> sums = {};
    for (size_t n = 0; n < kNodes; ++n) {
      const double angle = std::numbers::pi * (static_cast<double>(n) + 0.5) /
                           static_cast<double>(kNodes);
      const double value = at(4 / (1 + std::cos(angle)) - 2);
      for (size_t k = 0; k < kTerms; ++k) {
        sums[k] += value * std::cos(static_cast<double>(k) * angle) *
                   (k == 0 ? 1.0 : 2.0) / static_cast<double>(kNodes);
      }
    }
    for (size_t k = 0; k < kTerms; ++k) terms[k] = static_cast<float>(sums[k]);
  }

  static constexpr size_t kTerms = 14;
  std::array<float, kTerms> terms = {};

  // No branch and no call, so that a loop over it vectorises.
  float operator()(float z) const {
    const float y = 8 / (2 + z) - 2;  // 2 (2 t - 1)
    float next = 0, here = 0;
    for (size_t k = kTerms - 1; k > 0; --k) {
      const float before = y * here - next + terms[k];
      next = here;
      here = before;
    }
    return 0.5f * y * here - next + terms[0];
  }

 private:
  static double at(double z) {
    if (z < 6) return std::exp(z * z) * std::erfc(z);
    double term = 1 / (z * std::sqrt(std::numbers::pi)), sum = 0;
    for (int k = 1; k < 12; ++k) {
      sum += term;
      term *= -(2 * k - 1) / (2 * z * z);
    }
    return sum;
  }
};

inline NormalAt<float> normal_at(float x, const ScaledErfc& scaled) {
  const float bell = exp_of_negative(-0.5f * x * x);
  const float half =
      0.5f * bell *
      scaled(std::fabs(x) * static_cast<float>(1 / std::numbers::sqrt2));
  return {0.5f + std::copysign(0.5f - half, x),
          bell * static_cast<float>(std::numbers::inv_sqrtpi /
                                    std::numbers::sqrt2)};
}

inline NormalAt<double> normal_at(double x, const ScaledErfc&) {
  return {
      0.5 * (1 + std::erf(x / std::numbers::sqrt2)),
      std::exp(-0.5 * x * x) * std::numbers::inv_sqrtpi / std::numbers::sqrt2};
}

}  // namespace propagator::kernels
