#pragma once

#include "propagator/autodiff/jet.h"

namespace propagator::nn {

// Cubic splines through values at places (n) that rise, n ≥ 4: as many
// B-splines as places, whose knots are the places but the second and the last
// but one. Two derivatives are continuous.

// Their knots (n + 4).
torch::Tensor interpolating_knots(const torch::Tensor& places);
// The B-splines at places that move, (M; N) → (M; N, n).
autodiff::Jet interpolating_basis(const autodiff::Jet& x,
                                  const torch::Tensor& places);
// Factors of the B-splines that go through values (n, …).
torch::Tensor interpolating_factors(const torch::Tensor& values,
                                    const torch::Tensor& places);

}  // namespace propagator::nn
