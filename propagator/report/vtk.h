#pragma once

#include "propagator/core/files.h"
#include "propagator/report/field_series.h"

namespace propagator::report {

// Arrays for ParaView and other VTK readers: `folder`/series.pvd, which lists
// one image file a time (frame_0000.vti …) with the point arrays. The folder is
// written whole or not at all; it must not exist. Returns the .pvd file.
fs::path write_vtk(const GridSeries& series, const fs::path& folder);

// The same arrays at one time as one image file, .vti, in their own precision.
void write_image(const GridSeries& series, const fs::path& path);

// Arrays (N) at scattered points (N, 3) as vertices of one file, .vtp, in their
// own precision.
void write_points(const torch::Tensor& points,
                  const std::vector<GridSeries::Array>& arrays,
                  const fs::path& path);

// Case `index` with the arrays truth, prediction and error. The y axis points
// up, so the bottom row comes first.
fs::path write_vtk(const FieldSeries& series, int64_t index,
                   const fs::path& folder);

}  // namespace propagator::report
