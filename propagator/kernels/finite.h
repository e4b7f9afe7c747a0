#pragma once

#include <torch/types.h>

namespace propagator::kernels {

// Whether all numbers of a tensor are finite; positive too. One pass over
// memory where float32 and float64 lie on the CPU, in any layout: libtorch's
// own operations for this cost a small model a good part of its time.
bool all_finite(const torch::Tensor& values);
bool all_positive(const torch::Tensor& values);

}  // namespace propagator::kernels
