#pragma once

#include <array>
#include <cstdint>
#include <string>

namespace propagator::report {

struct Rgb {
  uint8_t red = 255, green = 255, blue = 255;
  bool operator==(const Rgb&) const = default;
};

// 256 colours from the smallest value to the largest. Both maps are drawn in a
// space where equal steps look equal (OKLab), and both keep their order for
// colour-blind readers and in a grey print:
//   sequential  dark blue – green – yellow, lightness rising evenly;
//   diverging   blue – white – red, lightness falling evenly from the middle.
using ColourMap = std::array<Rgb, 256>;
enum class Scale { kSequential, kDiverging };
const ColourMap& colour_map(Scale scale);

// Of `value` on [low, high]; values outside take the end's colour, NaN grey.
Rgb colour_of(Scale scale, double value, double low, double high);
// Cells that hold no value.
inline constexpr Rgb kNoValue{200, 200, 200};

// Lines and bars: eight colours that stay apart for colour-blind readers.
Rgb series_colour(size_t index);

std::string hex(Rgb colour);  // "#0072b2"
// Both maps and kNoValue, as a page's script reads them: JSON.
std::string colour_maps();

}  // namespace propagator::report
