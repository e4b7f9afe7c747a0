#pragma once

#include "propagator/data/tensor_file.h"

namespace propagator::data {

// The .npy files of a folder as arrays, named as the files without the ending.
// Rows are read when they are asked for.
std::unique_ptr<TensorReader> open_npy_folder(
    const std::filesystem::path& folder);

}  // namespace propagator::data
