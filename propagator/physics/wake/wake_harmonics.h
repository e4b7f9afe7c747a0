#pragma once

#include <torch/types.h>

namespace propagator::physics {

// Signals (T, …) at times (T) as a mean and H harmonics of a frequency,
//   f(t) = a_0 + Σ_k a_k cos 2πk ν t + b_k sin 2πk ν t,
// by least squares: (2H + 1, …) in the order a_0, a_1, b_1, a_2, …
torch::Tensor fit_harmonics(const torch::Tensor& times,
                            const torch::Tensor& signals, double frequency,
                            int64_t harmonics);

// The columns 1, cos φ, sin φ, cos 2φ, … of angles (N): (N, 2H + 1).
torch::Tensor harmonic_columns(const torch::Tensor& angles, int64_t harmonics);

// Coefficients (N, 2H + 1, …) of angle φ as those of φ - turn, with a turn for
// each of the N: the signal at φ is what the new ones give at φ - turn.
torch::Tensor turn_harmonics(const torch::Tensor& coefficients,
                             const torch::Tensor& turns);

// Weights (N, R) of values at nodes (R), all different, in the polynomial
// through them at x (N).
torch::Tensor lagrange_weights(const torch::Tensor& x,
                               const torch::Tensor& nodes);

}  // namespace propagator::physics
