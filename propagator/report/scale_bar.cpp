#include "propagator/report/scale_bar.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

namespace propagator::report {
namespace {

constexpr Rgb kBarText{51, 51, 51}, kBarFrame{110, 110, 110};
constexpr int64_t kBarWidth = 14;
constexpr int64_t kTickWidth = 4, kNumberGap = 5;  // gap: tick to number
constexpr int64_t kCapital = 7 * 2;                // a capital letter's height

// With digits enough that none is off by more than a two hundredth of the
// scale, and with signs on a scale about zero.
std::array<std::string, 3> numbers_on(double low, double high) {
  const std::array<double, 3> values{low, (low + high) / 2, high};
  const double largest = std::max(std::abs(low), std::abs(high));
  const bool plain = largest < 1e6 && high - low >= 1e-3;
  int digits = plain ? 0 : 1;
  const auto text = [&](double value) {
    const auto number = plain ? fmt::format("{:.{}f}", value, digits)
                              : fmt::format("{:.{}e}", value, digits);
    return std::atof(number.c_str()) == 0 ? "0"
                                          : number;  // "-0.00" among others
  };
  const auto is_off = [&](double value) {
    return std::abs(std::atof(text(value).c_str()) - value) >
           (high - low) / 200;
  };
  while (digits < 12 && std::ranges::any_of(values, is_off)) ++digits;
  const char* sign = low == -high ? "+" : "";
  return {text(low), text(values[1]), fmt::format("{}{}", sign, text(high))};
}

}  // namespace

ScaleBar::ScaleBar(Scale scale, double low, double high)
    : scale_(scale), numbers_(numbers_on(low, high)) {}

int64_t ScaleBar::width() const {
  int64_t widest = 0;
  for (const auto& text : numbers_) {
    widest = std::max(widest, Image::text_width(text));
  }
  return kBarWidth + kTickWidth + kNumberGap + widest;
}

void ScaleBar::draw(Image& image, int64_t x, int64_t y, int64_t height) const {
  image.rectangle(x - 1, y - 1, kBarWidth + 2, height + 2, kBarFrame);
  image.colour_bar(x, y, kBarWidth, height, scale_);
  const int64_t right = x + kBarWidth;
  for (int64_t n = 0; n < 3; ++n) {
    const int64_t at = y + (2 - n) * (height - 1) / 2;
    image.rectangle(right, at, kTickWidth, 1, kBarFrame);
    image.text(right + kTickWidth + kNumberGap, at - kCapital / 2,
               numbers_[static_cast<size_t>(n)], kBarText);
  }
}

int64_t ScaleBar::overhang() { return kCapital / 2; }

}  // namespace propagator::report
