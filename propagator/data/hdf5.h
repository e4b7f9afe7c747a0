#pragma once

#include "propagator/data/tensor_file.h"

namespace propagator::data {

std::unique_ptr<TensorReader> open_hdf5(const std::filesystem::path& path);

// The file is written beside `path` and takes its name on close().
std::unique_ptr<TensorWriter> create_hdf5(
    const std::filesystem::path& path, torch::ScalarType type,
    const std::map<std::string, std::vector<int64_t>>& shapes,
    const std::string& note);

}  // namespace propagator::data
