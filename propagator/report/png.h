#pragma once

#include <span>

#include "propagator/core/files.h"
#include "propagator/report/image.h"

namespace propagator::report {

// A picture as the bytes of a file. UsageError if this build has no libpng.
std::string png_of(const Image& image);
void write_png(const fs::path& path, const Image& image);
// An animated PNG that every browser plays, over and over; a viewer that does
// not know them shows the first frame.
void write_animated_png(const fs::path& path, std::span<const Image> frames,
                        double frames_per_second);
bool has_png();

}  // namespace propagator::report
