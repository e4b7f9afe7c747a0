#pragma once

#include "propagator/data/tensor_file.h"

namespace propagator::data {

// NumPy's .npz: a zip of .npy arrays. Built with libzip (npz.cpp) or, where
// that is missing, as a clear refusal (npz_missing.cpp).
void save_npz(const std::filesystem::path& path, const TensorFile& content);
TensorFile load_npz(const std::filesystem::path& path);
bool has_npz();

}  // namespace propagator::data
