#pragma once

#include <torch/types.h>

#include "propagator/core/random.h"

// Small parts of questions whose answers are known on a grid.

namespace propagator::tasks {

// (count, columns) normal numbers; row n is numbers [first, first + 2 columns)
// of row begin + n of the stream, whatever begin and count are.
torch::Tensor normal_rows(const RandomStream& stream, int64_t begin,
                          int64_t count, int64_t first, int64_t columns);

// Of values at evenly spaced places (an odd number of them) in their integral.
torch::Tensor simpson_weights(const torch::Tensor& places);

// Where the parabola through three heights at -1, 0 and 1 is highest, if the
// one at 0 is the highest of them: within ±1/2.
torch::Tensor summit(const torch::Tensor& left, const torch::Tensor& middle,
                     const torch::Tensor& right);

}  // namespace propagator::tasks
