#pragma once

#include <string>
#include <vector>

#include "propagator/report/image.h"

namespace propagator::report {

// Matrices as colours beside one another, on one scale.
struct SheetRow {
  std::string label = "";  // above it
  std::vector<std::string> titles = {};
  std::vector<torch::Tensor> panels = {};  // (R, C) each; row 0 at the top
};

// Rows of panels with their scales as one picture, for a first look at data.
// Panels of many nodes show some of them.
Image field_sheet(const std::vector<SheetRow>& rows);

}  // namespace propagator::report
