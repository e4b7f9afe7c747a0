#pragma once

#include <torch/types.h>

#include <vector>

namespace propagator::physics {

// Where the numbers of a grid are: on points of a periodic axis, in cells, or
// on points of which the first and the last are ends.
enum class FieldGrid { kPeriodic, kCells, kEnds };

// Fields (N, space…, C) on grids of so many nodes along each axis. Periodic
// ones by their waves, without the highest of the smaller grid, which has no
// sign; cells by means of whole ones, and by linear interpolation of centres to
// more; points with ends by leaving out some, and by linear interpolation.
torch::Tensor resampled(const torch::Tensor& fields, FieldGrid grid,
                        const std::vector<int64_t>& nodes);

// Nodes of an axis with half as many intervals; 0 where there is none.
int64_t coarser(int64_t nodes, FieldGrid grid);

}  // namespace propagator::physics
