#pragma once

#include <torch/types.h>

#include "propagator/physics/heat_plate.h"

namespace propagator::tasks {

// What a forecast is compared with. All know the first `visible` frames, as a
// model does: (B, T, R, C) histories → (B, T, R, C) answers.

// The last visible frame, kept.
torch::Tensor keep_last_frame(const torch::Tensor& frames, int64_t visible);

// From the last visible frame in a straight line to the steady state that the
// edges determine, reached at the last frame.
torch::Tensor line_to_steady_state(const physics::HeatPlateOptions& plate,
                                   const torch::Tensor& frames,
                                   int64_t visible);

// The classical answer: the scheme that made the data, explicit Euler, from the
// last visible frame on.
torch::Tensor continue_scheme(const physics::HeatPlateOptions& plate,
                              const torch::Tensor& frames,
                              const torch::Tensor& alpha,
                              const torch::Tensor& dt, int64_t visible);

}  // namespace propagator::tasks
