#pragma once

#include <filesystem>
#include <string>

#include "propagator/run/run.h"

namespace propagator::run {

// Reads the model's inputs from a file, applies it, and writes its answers to
// another; the endings tell the formats (.csv, .h5, .hdf5, .npz; of answers at
// points .vti and .vtp too). Returns what was written, in one line. DataError
// if the file does not hold what the model takes.
std::string predict(const Run& run, const std::filesystem::path& input,
                    const std::filesystem::path& output);

}  // namespace propagator::run
