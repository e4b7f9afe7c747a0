#pragma once

#include <torch/types.h>

#include <vector>

namespace propagator::train {

// Rows 0 … count - 1 of a table that the ranks have computed, each its
// own_share of them, in order: all rows, on every rank. Of one rank they are as
// they were; of several they are in float64, on the CPU.
std::vector<torch::Tensor> gather_rows(std::vector<torch::Tensor> own,
                                       int64_t count);

}  // namespace propagator::train
