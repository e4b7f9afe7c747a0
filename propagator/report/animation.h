#pragma once

#include <vector>

#include "propagator/core/files.h"
#include "propagator/report/field_series.h"
#include "propagator/report/image.h"

namespace propagator::report {

// A case of a series, on the scales of its whole history.
struct ShownCase {
  int64_t index;
  FieldRange range;
};

// One frame: truth, prediction and error of each case side by side, with the
// colour bars, cases below one another, and the time. Without a truth there is
// the prediction alone. Rings, over truth and error, or the prediction where it
// is alone, are sensors near the frame.
Image draw_frame(const FieldSeries& series, const std::vector<ShownCase>& cases,
                 int64_t frame);

// Some cases as one animation: `stem`.mp4 through ffmpeg, or without that
// program `stem`.png, an animated PNG. Returns the file; empty if this machine
// has neither ffmpeg nor libpng, or ffmpeg failed without libpng to stand in.
fs::path write_animation(const FieldSeries& series,
                         const std::vector<int64_t>& indices,
                         const fs::path& stem);

}  // namespace propagator::report
