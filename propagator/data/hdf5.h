#pragma once

#include "propagator/data/tensor_file.h"

namespace propagator::data {

std::unique_ptr<TensorReader> open_hdf5(const std::filesystem::path& path);

// How an array is stored: in float64, or else in float32.
struct StoredArray {
  torch::ScalarType type;
  std::vector<int64_t> shape;
};

// The file is written beside `path` and takes its name on close().
std::unique_ptr<TensorWriter> create_hdf5(
    const std::filesystem::path& path,
    const std::map<std::string, StoredArray>& arrays, const std::string& note);

}  // namespace propagator::data
