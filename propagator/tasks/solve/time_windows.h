#pragma once

#include <torch/types.h>

#include "propagator/core/device.h"

namespace propagator::tasks {

// How points become windows: the tokens of each follow it through time.
struct TimeWindows {
  int64_t tokens = 1;
  int64_t time = -1;  // the variable; windows of one token need none
  double step = 0;    // between two tokens

  // Points (N, D) as windows (N, T, D), on the device.
  torch::Tensor of(const torch::Tensor& points, const Runtime& runtime) const;
};

}  // namespace propagator::tasks
