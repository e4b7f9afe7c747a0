#pragma once

#include <string>
#include <vector>

#include "propagator/data/csv.h"

namespace propagator::data {

// Points and what is known at them, one column for each name, in a file whose
// ending tells the format: .csv, .h5, .hdf5 or .npz.

// UsageError unless the name ends so.
void expect_point_table(const std::filesystem::path& path);

// The points (N, D) of these variables, in float64, or (…, D) if their arrays
// have another shape in common, as those of a grid. The file may have them in
// any order; a warning names what else it has. DataError unless all are there,
// finite and of one length, which is not 0.
torch::Tensor read_points(const std::filesystem::path& path,
                          const std::vector<std::string>& variables);

// A name that comes again is written once; a CSV file has columns (N) of all.
void write_point_table(const std::filesystem::path& path,
                       const std::vector<data::Column>& columns);

}  // namespace propagator::data
