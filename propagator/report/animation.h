#pragma once

#include "propagator/core/files.h"
#include "propagator/report/field_series.h"
#include "propagator/report/image.h"

namespace propagator::report {

// One frame: truth, prediction and error side by side, with the colour bars
// and the time. The scales are those of the whole series.
Image draw_frame(const FieldSeries& series, const FieldRange& range,
                 int64_t index, int64_t frame);

// Case `index` as an animation: `stem`.mp4 through ffmpeg, or without that
// program `stem`.png, an animated PNG. Returns the file; empty if this machine
// has neither ffmpeg nor libpng, or ffmpeg failed without libpng to stand in.
fs::path write_animation(const FieldSeries& series, int64_t index,
                         const fs::path& stem);

}  // namespace propagator::report
