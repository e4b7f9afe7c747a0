#pragma once

#include <torch/types.h>

namespace propagator::nn {

// Fields on D axes cut into patches of `patch` nodes along each,
//   (…, n_1, …, n_D, C) → (…, Π n_d / patch, patch^D · C):
// patches in the order of the grid, the last axis first to change, and so the
// nodes of each. std::invalid_argument if an axis is no multiple of a patch.
torch::Tensor patches_of(const torch::Tensor& fields, int64_t axes,
                         int64_t patch);

// The inverse: patches (…, S, patch^D · C) on a grid of so many `nodes` along
// its D axes → (…, n_1, …, n_D, C).
torch::Tensor fields_of(const torch::Tensor& patches, torch::IntArrayRef nodes,
                        int64_t patch);

}  // namespace propagator::nn
