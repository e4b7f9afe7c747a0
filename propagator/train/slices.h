#pragma once

#include <torch/types.h>

#include <cstdint>
#include <functional>
#include <vector>

namespace propagator::train {

// A batch is cut into a fixed number of slices, train.slices, which the ranks
// share out among themselves. The gradient of a slice is computed by itself,
// and those of all are added in a fixed order: so that the sum has the same
// bits however many ranks there are.

// Positions of cases, one tensor for each forward pass.
using Parts = std::vector<torch::Tensor>;

// ConfigError of fewer slices than there are ranks.
void expect_slices_for_ranks(int64_t slices);

// Slice n has the n-th piece of each part, as views. One slice is the parts as
// they are. ConfigError of more slices than the first part has cases, and as
// above.
std::vector<Parts> slices_of(const Parts& parts, int64_t slices);

int64_t count_of(const Parts& parts);  // cases

// Sums, tensor by tensor, what `leaf` gives for slices 0 … count - 1, over a
// binary tree that depends on their count alone. A rank asks `leaf` for its
// own_share of them, in order, at least one; a node of the tree belongs to the
// rank of its first slice, where sums of later ones are sent. The first rank
// has the whole sum then, and sends it to all.
using Sum = std::vector<torch::Tensor>;
Sum tree_sum(int64_t count, const std::function<Sum(int64_t)>& leaf);

}  // namespace propagator::train
