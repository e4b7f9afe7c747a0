#pragma once

#include "propagator/physics/wake/log_polar_grid.h"

namespace propagator::physics {

// The total head H = p + ½ |u|² of a flow, (2, n, K), from the momentum
// equation itself. Along a ring it says
//   H_θ = ψ_tξ - ψ_θ ω + ν ω_ξ,
// which gives every mode but the mean without any boundary condition; and the
// mean obeys H_ξ = -(ψ_ξ ω)_mean, integrated inwards from H = `outside` at the
// outer ring. No density: it is 1.
torch::Tensor total_head(const LogPolarGrid& grid, const torch::Tensor& stream,
                         const torch::Tensor& stream_rate,
                         const torch::Tensor& vorticity, double viscosity,
                         double outside);

}  // namespace propagator::physics
