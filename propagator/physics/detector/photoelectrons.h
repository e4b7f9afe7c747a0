#pragma once

namespace propagator::physics {

// Means beyond this many photoelectrons have too long a sum.
inline constexpr double kMostSummed = 1e6;

// How many photoelectrons a sensor counts of the mean λ ≥ 0: Poisson(λ) of `u`,
// uniform on [0, 1), as the smallest n with P(N > n) ≤ u: one at least exactly
// if u < 1 - e^-λ. Above kMostSummed it is
//   λ + √λ z + (z² - 1) / 6, rounded, of `z`, normal,
// whose distribution function is off by less than 10⁻⁶.
double photoelectrons(double mean, double u, double z = 0);

}  // namespace propagator::physics
