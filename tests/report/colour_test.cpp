#include "propagator/report/colour.h"

#include <cmath>
#include <limits>

#include "testing.h"

namespace propagator::report {
namespace {

// Lightness in OKLab, from the screen's colour back.
double lightness(Rgb colour) {
  const auto linear = [](uint8_t byte) {
    const double x = byte / 255.0;
    return x <= 0.04045 ? x / 12.92 : std::pow((x + 0.055) / 1.055, 2.4);
  };
  const double r = linear(colour.red), g = linear(colour.green),
               b = linear(colour.blue);
  const double l =
      std::cbrt(0.4122214708 * r + 0.5363325363 * g + 0.0514459929 * b);
  const double m =
      std::cbrt(0.2119034982 * r + 0.6806995451 * g + 0.1073969566 * b);
  const double s =
      std::cbrt(0.0883024619 * r + 0.2817188376 * g + 0.6299787005 * b);
  return 0.2104542553 * l + 0.7936177850 * m - 0.0040720468 * s;
}

TEST(ReportColour, SequentialRisesInEqualSteps) {
  const auto& map = colour_map(Scale::kSequential);
  const double first = lightness(map[0]), last = lightness(map[255]);
  EXPECT_LT(first, 0.25);
  EXPECT_GT(last, 0.9);
  for (int n = 0; n < 256; ++n) {
    const double even = first + (last - first) * n / 255;
    EXPECT_NEAR(lightness(map[n]), even, 0.006) << n;
  }
}

TEST(ReportColour, DivergingIsLightInTheMiddleAndTheSameBothWays) {
  const auto& map = colour_map(Scale::kDiverging);
  for (int n = 0; n < 128; ++n) {
    EXPECT_NEAR(lightness(map[n]), lightness(map[255 - n]), 0.008) << n;
    if (n > 0) {
      EXPECT_GT(lightness(map[n]), lightness(map[n - 1]) - 1e-3) << n;
    }
  }
  EXPECT_GT(map[0].blue, map[0].red);
  EXPECT_GT(map[255].red, map[255].blue);
}

TEST(ReportColour, ValuesFindTheirPlaceOnTheScale) {
  const auto& map = colour_map(Scale::kSequential);
  EXPECT_EQ(colour_of(Scale::kSequential, 2, 2, 4), map[0]);
  EXPECT_EQ(colour_of(Scale::kSequential, 4, 2, 4), map[255]);
  EXPECT_EQ(colour_of(Scale::kSequential, 9, 2, 4), map[255]);
  EXPECT_EQ(colour_of(Scale::kSequential, -9, 2, 4), map[0]);
  EXPECT_EQ(colour_of(Scale::kSequential, std::nan(""), 2, 4), kNoValue);
  EXPECT_EQ(colour_of(Scale::kSequential, HUGE_VAL, 2, HUGE_VAL), kNoValue);
  EXPECT_EQ(colour_of(Scale::kSequential, HUGE_VAL, 2, 4), map[255]);
}

TEST(ReportColour, HexIsWhatBrowsersRead) {
  EXPECT_EQ(hex({0, 114, 178}), "#0072b2");
}

}  // namespace
}  // namespace propagator::report
