#pragma once

#include <filesystem>

#include "propagator/data/tensor_file.h"

namespace propagator::testing {

// .mat files as MATLAB writes them, by matio; where the library is built
// without it (data::has_matio), these throw.
enum class MatKind { k5, kCompressed5, k73 };

// Arrays of float64, float32, int32 or uint8; (N) becomes N x 1.
void write_mat(const std::filesystem::path& path, const data::Tensors& tensors,
               MatKind kind = MatKind::k5);
// One number `a`, a text `text`, a complex number `complex`, a cell array
// `cell`.
void write_mat_with_others(const std::filesystem::path& path,
                           MatKind kind = MatKind::k5);

}  // namespace propagator::testing
