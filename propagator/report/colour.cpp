#include "propagator/report/colour.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numbers>

namespace propagator::report {
namespace {

// A colour by lightness (0 to 1), chroma and hue (degrees) in OKLab.
struct Perceived {
  double lightness, chroma, hue;
};

// Linear sRGB; a component outside [0, 1] is a colour no screen can show.
std::array<double, 3> linear_rgb(const Perceived& colour) {
  const double angle = colour.hue * std::numbers::pi / 180;
  const double a = colour.chroma * std::cos(angle);
  const double b = colour.chroma * std::sin(angle);
  const auto cube = [](double x) { return x * x * x; };
  const double l = cube(colour.lightness + 0.3963377774 * a + 0.2158037573 * b);
  const double m = cube(colour.lightness - 0.1055613458 * a - 0.0638541728 * b);
  const double s = cube(colour.lightness - 0.0894841775 * a - 1.2914855480 * b);
  return {4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s,
          -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s,
          -0.0041960863 * l - 0.7034186147 * m + 1.7076147010 * s};
}

bool shows(const std::array<double, 3>& rgb) {
  return std::ranges::all_of(
      rgb, [](double x) { return x >= -1e-6 && x <= 1 + 1e-6; });
}

// The colour on the screen; where it is too vivid for one, the chroma gives
// way and the lightness stays.
Rgb on_screen(Perceived colour) {
  double low = 0, high = colour.chroma;
  if (!shows(linear_rgb(colour))) {
    for (int n = 0; n < 40; ++n) {
      colour.chroma = (low + high) / 2;
      (shows(linear_rgb(colour)) ? low : high) = colour.chroma;
    }
    colour.chroma = low;
  }
  const auto encode = [](double x) {
    x = std::clamp(x, 0.0, 1.0);
    x = x <= 0.0031308 ? 12.92 * x : 1.055 * std::pow(x, 1 / 2.4) - 0.055;
    return static_cast<uint8_t>(std::lround(255 * x));
  };
  const auto rgb = linear_rgb(colour);
  return {encode(rgb[0]), encode(rgb[1]), encode(rgb[2])};
}

template <class Path>
ColourMap along(Path path) {
  ColourMap map;
  for (size_t n = 0; n < map.size(); ++n) {
    map[n] = on_screen(path(static_cast<double>(n) / (map.size() - 1)));
  }
  return map;
}

}  // namespace

const ColourMap& colour_map(Scale scale) {
  static const ColourMap sequential = along([](double s) {
    return Perceived{0.22 + 0.73 * s, 0.13 + 0.03 * s, 290 - 185 * s};
  });
  static const ColourMap diverging = along([](double s) {
    const double far = std::abs(2 * s - 1);
    return Perceived{0.98 - 0.53 * far, 0.20 * far, s < 0.5 ? 258.0 : 30.0};
  });
  return scale == Scale::kSequential ? sequential : diverging;
}

Rgb colour_of(Scale scale, double value, double low, double high) {
  // Not a number either: what is infinite on an infinite scale.
  const double share = (value - low) / (high - low);
  if (std::isnan(share)) return kNoValue;
  return colour_map(scale)[static_cast<size_t>(
      std::lround(255 * std::clamp(share, 0.0, 1.0)))];
}

Rgb series_colour(size_t index) {
  static constexpr Rgb colours[] = {
      {0, 114, 178},  {213, 94, 0},  {0, 158, 115}, {204, 121, 167},
      {86, 180, 233}, {230, 159, 0}, {0, 0, 0},     {150, 140, 20}};
  return colours[index % std::size(colours)];
}

std::string hex(Rgb colour) {
  return fmt::format("#{:02x}{:02x}{:02x}", colour.red, colour.green,
                     colour.blue);
}

std::string colour_maps() {
  nlohmann::json maps{{"none", hex(kNoValue)}};
  for (const auto& [name, scale] :
       {std::pair{"sequential", Scale::kSequential},
        std::pair{"diverging", Scale::kDiverging}}) {
    for (const auto& colour : colour_map(scale)) {
      maps[name].push_back(hex(colour));
    }
  }
  return maps.dump();
}

}  // namespace propagator::report
