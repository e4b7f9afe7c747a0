#pragma once

#include <torch/types.h>

#include <string_view>
#include <vector>

#include "propagator/report/colour.h"

namespace propagator::report {

// A picture in memory, for frames that are drawn by the hundred. Coordinates
// are pixels from the top left; what falls outside is cut off.
class Image {
 public:
  Image(int64_t width, int64_t height, Rgb background = {255, 255, 255});

  int64_t width() const { return width_; }
  int64_t height() const { return height_; }
  const std::vector<Rgb>& pixels() const { return pixels_; }  // row by row
  Rgb at(int64_t x, int64_t y) const { return pixels_[y * width_ + x]; }

  void rectangle(int64_t x, int64_t y, int64_t width, int64_t height,
                 Rgb colour);
  // Pixels whose middles are more than `inner` and at most `outer` from that of
  // (x, y).
  void ring(int64_t x, int64_t y, double inner, double outer, Rgb colour);
  // A field (R, C) with `cell` pixels a side for each node.
  void field(int64_t x, int64_t y, int64_t cell, const torch::Tensor& values,
             Scale scale, double low, double high);
  // The scale itself, largest value at the top.
  void colour_bar(int64_t x, int64_t y, int64_t width, int64_t height,
                  Scale scale);
  // In a small fixed font: ASCII letters, digits and common signs; `size`
  // pixels for each dot. Characters it lacks are drawn as a box.
  void text(int64_t x, int64_t y, std::string_view text, Rgb colour,
            int64_t size = 2);
  static int64_t text_width(std::string_view text, int64_t size = 2);
  static int64_t text_height(int64_t size = 2);

 private:
  int64_t width_, height_;
  std::vector<Rgb> pixels_;
};

}  // namespace propagator::report
