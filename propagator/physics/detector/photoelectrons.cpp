#include "propagator/physics/detector/photoelectrons.h"

#include <algorithm>
#include <cmath>

namespace propagator::physics {
namespace {

constexpr double kFew = 30;  // means from which sums begin at 0
constexpr double kNothing = 1e-18;

double probability(double mean, double n) {
  return std::exp(n * std::log(mean) - mean - std::lgamma(n + 1));
}

}  // namespace

double photoelectrons(double mean, double u, double z) {
  if (!(u < -std::expm1(-mean))) return 0;
  if (mean > kMostSummed) {
    return std::round(mean + std::sqrt(mean) * z + (z * z - 1) / 6);
  }
  // P(N > n), from n = 0 or the mode on.
  double n = 0, p = std::exp(-mean), above = -std::expm1(-mean);
  if (mean > kFew) {
    n = std::floor(mean);
    p = probability(mean, n);
    above = 0;
    double term = p, k = n;
    while (term > kNothing) {
      term *= mean / ++k;
      above += term;
    }
    // P(N > n - 1) = P(N > n) + p(n)
    while (n > 0 && p > kNothing && above + p <= u) {
      above += p;
      p *= n / mean;
      --n;
    }
  }
  while (above > u && (p > kNothing || n < mean)) {
    p *= mean / ++n;
    above -= p;
  }
  return std::max(n, 1.0);
}

}  // namespace propagator::physics
