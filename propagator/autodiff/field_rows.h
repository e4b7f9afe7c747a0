#pragma once

#include <torch/types.h>

#include <vector>

#include "propagator/autodiff/jet.h"

namespace propagator::autodiff {

// The rows of a jet of fields at a part of its points, as plain tensors:
// [field][row], (n, …) each.
using FieldRows = std::vector<std::vector<torch::Tensor>>;

// Of `fields`, a jet (M; N, …, F), at parts that follow one another along N. A
// part of the shape (n, t, …) has n points there and the first t, … along the
// other dimensions.
//
// In the backward pass what came to any of them is copied into one tensor of
// zeros; of `select` and `narrow` each would make zeros of its own, and add
// them.
std::vector<FieldRows> field_rows(
    const Jet& fields, const std::vector<std::vector<int64_t>>& parts);

}  // namespace propagator::autodiff
