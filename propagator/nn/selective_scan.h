#pragma once

#include "propagator/autodiff/jet.h"

namespace propagator::nn {

// The state-space recurrence of Mamba, whose step Δ, input B and output C
// differ from token to token:
//   h_t = exp(Δ_t A) h_t-1 + Δ_t B_t x_t,   y_t = C_t · h_t + D x_t,
// h before the first token 0. Jets x and Δ (M; N, T, I), B and C (M; N, T, S)
// with S states per channel; A (I, S) and D (I) do not move. Returns
// (M; N, T, I). One step after the other: windows are a few tokens long. By the
// fused kernel where it takes them.
autodiff::Jet selective_scan(const autodiff::Jet& x, const autodiff::Jet& delta,
                             const torch::Tensor& a, const autodiff::Jet& b,
                             const autodiff::Jet& c, const torch::Tensor& d);

// The same in plain operations, to any order: the meaning.
autodiff::Jet selective_scan_reference(
    const autodiff::Jet& x, const autodiff::Jet& delta, const torch::Tensor& a,
    const autodiff::Jet& b, const autodiff::Jet& c, const torch::Tensor& d);

}  // namespace propagator::nn
