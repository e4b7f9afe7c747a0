#pragma once

#include <array>
#include <string>

#include "propagator/report/image.h"

namespace propagator::report {

// What the colours of a field stand for, beside it in a picture: a bar with the
// lowest, the middle and the highest number.
class ScaleBar {
 public:
  ScaleBar(Scale scale, double low, double high);

  int64_t width() const;  // in pixels, numbers included
  void draw(Image& image, int64_t x, int64_t y, int64_t height) const;

  // Half the height of a number that stands at an end, outside of the bar.
  static int64_t overhang();

 private:
  Scale scale_;
  std::array<std::string, 3> numbers_;
};

}  // namespace propagator::report
