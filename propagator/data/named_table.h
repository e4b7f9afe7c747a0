#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "propagator/core/error.h"
#include "propagator/data/csv.h"

namespace propagator::data {

// Named numbers in a file whose ending tells the format: columns of a .csv,
// arrays of an .h5, .hdf5 or .npz, or of a .mat, which can only be read.

// UsageError unless the name ends so; of a table to read or to write.
void expect_table(const std::filesystem::path& path);
void expect_written_table(const std::filesystem::path& path);

// Those of these names, and those of `more` that the file has, in any order; a
// warning says what else it has. DataError unless all of `names` are there.
// Cells of a .csv may be empty or `nan` under the names of `gaps` (csv.h).
std::map<std::string, torch::Tensor> read_table(
    const std::filesystem::path& path, const std::vector<std::string>& names,
    const std::vector<std::string>& more = {},
    const std::vector<std::string>& gaps = {});

// All that a file has.
std::map<std::string, torch::Tensor> read_whole_table(
    const std::filesystem::path& path);

// In this order. A name that comes again is written once; a CSV file has
// columns (N) of all.
void write_table(const std::filesystem::path& path,
                 const std::vector<Column>& columns, const std::string& note);

// The tensor of that name; UsageError if there is none.
const torch::Tensor& tensor_named(
    const std::map<std::string, torch::Tensor>& table, const std::string& name);

// Points (N, D) of these variables, on the CPU in float64, or (…, D) if their
// tensors have another shape in common, as those of a grid. UsageError unless
// all are there, finite and of one length, which is not 0.
torch::Tensor stack_points(const std::map<std::string, torch::Tensor>& table,
                           const std::vector<std::string>& variables);

// What `work` returns; its UsageError becomes a DataError that names the file:
// the caller's mistake was the file's.
template <class Work>
auto blame_file(const std::filesystem::path& path, Work&& work) {
  try {
    return work();
  } catch (const UsageError& error) {
    throw DataError(path.string() + ": " + error.what(), error.hint());
  }
}

// The points of a file; DataError.
torch::Tensor read_points(const std::filesystem::path& path,
                          const std::vector<std::string>& variables);

}  // namespace propagator::data
