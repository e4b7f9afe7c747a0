#pragma once

#include "propagator/data/gridded.h"
#include "propagator/data/tensor_file.h"

namespace propagator::data {

// The layout of the public data of a cylinder's wake: points X_star (N, D) with
// their x, y (and z), times t (T), velocities U_star (N, C, T) with u, v (and
// w), pressures p_star (N, T). The points are a list; those of a grid are
// recognised by their places, in whatever order they come.

inline constexpr const char* kWakePoints = "X_star";
// Names of arrays that a file in this layout has beside t.
const std::vector<std::string>& wake_layout_names();

// The table of such a file on its grid. DataError if the points are no grid, if
// arrays do not fit to one another, and for a variable or a field that the
// layout does not know.
Gridded from_wake_layout(const Tensors& table,
                         const std::filesystem::path& path,
                         const std::vector<std::string>& variables,
                         const std::vector<std::string>& fields);

}  // namespace propagator::data
