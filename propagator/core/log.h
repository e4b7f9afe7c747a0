#pragma once

#include <spdlog/spdlog.h>

#include <filesystem>

namespace propagator::log {

using spdlog::info;
using spdlog::warn;

// Log lines go to stderr, coloured on a terminal unless NO_COLOR is set.
void to_stderr(bool quiet);
// From now on also to this file, appended and flushed line by line.
void also_to_file(const std::filesystem::path& path);

}  // namespace propagator::log
