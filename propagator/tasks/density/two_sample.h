#pragma once

#include <torch/types.h>

namespace propagator::tasks {

// How often a network that has learned to tell two sets of rows apart is right
// about rows that it has not seen: 0.5 if they cannot be told apart.
struct TwoSample {
  double accuracy = 0.5;
  double error = 0;  // its standard error
};

// Of as many rows each, (N, D); half of them teach. The same for the same seed.
TwoSample tell_apart(const torch::Tensor& first, const torch::Tensor& second,
                     int64_t seed);

}  // namespace propagator::tasks
