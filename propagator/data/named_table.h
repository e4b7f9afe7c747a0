#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "propagator/data/csv.h"

namespace propagator::data {

// Named numbers in a file whose ending tells the format: columns of a .csv,
// arrays of an .h5, .hdf5 or .npz.

// UsageError unless the name ends so.
void expect_table(const std::filesystem::path& path);

// Those of these names. The file may have them in any order; a warning says
// what else it has. DataError unless all are there.
std::map<std::string, torch::Tensor> read_table(
    const std::filesystem::path& path, const std::vector<std::string>& names);

// In this order. A name that comes again is written once; a CSV file has
// columns (N) of all.
void write_table(const std::filesystem::path& path,
                 const std::vector<Column>& columns, const std::string& note);

// Points (N, D) of these variables, in float64, or (…, D) if their arrays have
// another shape in common, as those of a grid. DataError unless all are there,
// finite and of one length, which is not 0.
torch::Tensor read_points(const std::filesystem::path& path,
                          const std::vector<std::string>& variables);

}  // namespace propagator::data
