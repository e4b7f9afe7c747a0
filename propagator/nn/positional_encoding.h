#pragma once

#include <torch/types.h>

namespace propagator::nn {

// Sinusoidal encoding of positions 0 … n-1 in `dims` (even) features,
//   [sin(p f_0) … sin(p f_{m-1}), cos(p f_0) … cos(p f_{m-1})] / √m,
// m = dims/2, with frequencies spaced geometrically from 1 down to 1e-4.
// Returns (n, dims); every row has length one.
torch::Tensor sinusoidal_encoding(int64_t n, int64_t dims,
                                  const torch::TensorOptions& options);

// The same as the heat-plate paper's section 2.7 has it, sine and cosine in
// turn and of length √m:
//   sin(p / 10000^(i / dims)) of an even i, cos(p / 10000^((i - 1) / dims)) of
//   an odd one, i = 0 … dims-1.
torch::Tensor interleaved_encoding(int64_t n, int64_t dims,
                                   const torch::TensorOptions& options);

}  // namespace propagator::nn
