#include "propagator/report/dark_svg.h"

#include <fmt/format.h>

#include "propagator/report/colour.h"

namespace propagator::report {
namespace {

// As light as it was dark: greys of text and axes.
Rgb inverted(uint8_t grey) {
  // White becomes the ground of a dark page, black its brightest text.
  const auto level = static_cast<uint8_t>(230 - (230 - 24) * grey / 255);
  return {level, level, level};
}

// Half way to white: dark blue is hard to see on black.
Rgb lightened(Rgb colour) {
  const auto half = [](uint8_t value) {
    return static_cast<uint8_t>(value + (255 - value) * 2 / 5);
  };
  return {half(colour.red), half(colour.green), half(colour.blue)};
}

// gnuplot writes lines and texts in two ways.
std::string rule(Rgb colour, Rgb dark) {
  const auto [r, g, b] = colour;
  std::string text;
  for (const char* what : {"stroke", "fill"}) {
    text += fmt::format(
        "[{0}=\"rgb({1:3}, {2:3}, {3:3})\"],[{0}=\"rgb({1},{2},{3})\"]"
        "{{{0}:{4}}}\n",
        what, r, g, b, hex(dark));
  }
  return text;
}

std::string dark_rules() {
  std::string rules;
  for (const int grey :
       {0x00, 0x22, 0x44, 0x55, 0x66, 0x88, 0x99, 0xbb, 0xdd, 0xff}) {
    const auto level = static_cast<uint8_t>(grey);
    rules += rule({level, level, level}, inverted(level));
  }
  for (size_t n = 0; n < 8; ++n) {
    const auto colour = series_colour(n);
    if (colour == Rgb{0, 0, 0}) continue;  // a grey
    rules += rule(colour, lightened(colour));
  }
  return rules +
         fmt::format("[color=\"black\"]{{color:{}}}\n", hex(inverted(0)));
}

}  // namespace

std::string with_dark_style(std::string svg) {
  static const auto style = fmt::format(
      "\n<style>\n#gnuplot_canvas > rect{{fill:none}}\n"
      "@media (prefers-color-scheme: dark) {{\n{}}}\n</style>\n",
      dark_rules());
  const auto begin = svg.find("<svg");
  const auto end = begin == std::string::npos ? begin : svg.find('>', begin);
  if (end != std::string::npos) svg.insert(end + 1, style);
  return svg;
}

}  // namespace propagator::report
