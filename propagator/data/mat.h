#pragma once

#include "propagator/data/tensor_file.h"

namespace propagator::data {

// MATLAB's .mat files, which are read, not written. An array has the shape that
// MATLAB gives it, A(i, j) at [i - 1][j - 1]: what MATLAB stores column by
// column is put in order. Version 7.3 is HDF5 with all axes the other way
// round, and is read by our own reader; version 5 takes matio (mat5.cpp) or,
// where that is missing, is refused (mat5_missing.cpp). Real arrays of numbers
// are read, in float64, those in single precision in float32; texts, cells,
// structs, complex and sparse arrays are named as unread.
std::unique_ptr<TensorReader> open_mat(const std::filesystem::path& path);

struct Mat5 {
  Tensors tensors;
  std::vector<std::string> unread;
};
// DataError if it is damaged; UsageError without matio.
Mat5 load_mat5(const std::filesystem::path& path);
bool has_matio();

}  // namespace propagator::data
