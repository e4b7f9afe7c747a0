#pragma once

#include <torch/types.h>

#include <string>

#include "propagator/core/error.h"

namespace propagator::tasks {

// DataError unless sums that tell a file's numbers from others are those that
// a run was trained with, but for their rounding, which depends on the number
// of threads.
inline void expect_same_data(const torch::Tensor& trained,
                             const torch::Tensor& now,
                             const std::string& file) {
  if (trained.sizes() == now.sizes() &&
      torch::allclose(trained, now, 1e-9, 0)) {
    return;
  }
  throw DataError(file + " is not the file that the run was trained on",
                  "bring that file back, or train another run with this one");
}

}  // namespace propagator::tasks
