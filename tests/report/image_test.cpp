#include "propagator/report/image.h"
#include "propagator/report/field_sheet.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "testing.h"

namespace propagator::report {
namespace {

constexpr Rgb kWhite{255, 255, 255}, kBlack{0, 0, 0}, kRed{255, 0, 0};

// How many pixels of the image are not white, and how many of those lie in
// the rectangle.
struct Ink {
  int64_t all = 0, inside = 0;
};
Ink ink(const Image& image, int64_t left, int64_t top, int64_t width,
        int64_t height) {
  Ink count;
  for (int64_t y = 0; y < image.height(); ++y) {
    for (int64_t x = 0; x < image.width(); ++x) {
      if (image.at(x, y) == kWhite) continue;
      ++count.all;
      if (x >= left && x < left + width && y >= top && y < top + height) {
        ++count.inside;
      }
    }
  }
  return count;
}

TEST(ReportImage, RectangleCoversItsPixels) {
  Image image(8, 6);
  image.rectangle(2, 1, 3, 4, kRed);
  const Ink count = ink(image, 2, 1, 3, 4);
  EXPECT_EQ(count.all, 12);
  EXPECT_EQ(count.inside, 12);
  EXPECT_EQ(image.at(4, 4), kRed);
  EXPECT_EQ(image.pixels().size(), 48u);
}

TEST(ReportImage, ARingLeavesItsMiddle) {
  Image image(20, 20);
  image.ring(9, 10, 2.5, 3.5, kRed);
  EXPECT_EQ(image.at(9, 10), kWhite);
  EXPECT_EQ(image.at(11, 10), kWhite);
  EXPECT_EQ(image.at(12, 10), kRed);
  EXPECT_EQ(image.at(9, 7), kRed);
  EXPECT_EQ(image.at(13, 10), kWhite);
  EXPECT_EQ(ink(image, 6, 7, 7, 7).all, ink(image, 6, 7, 7, 7).inside);
  // Middles of 16 pixels are in between: (3, 0), (3, 1), (2, 2) and their like.
  EXPECT_EQ(ink(image, 6, 7, 7, 7).all, 16);
  image.ring(0, 0, 1, 40, kRed);  // what lies outside is cut off
  EXPECT_EQ(image.at(19, 19), kRed);
}

TEST(ReportImage, WhatLiesOutsideIsCutOff) {
  Image image(8, 6);
  image.rectangle(-3, -2, 5, 4, kRed);
  EXPECT_EQ(ink(image, 0, 0, 2, 2).inside, 4);
  EXPECT_EQ(ink(image, 0, 0, 2, 2).all, 4);
  image.rectangle(6, 5, 100, 100, kRed);
  EXPECT_EQ(ink(image, 0, 0, 8, 6).all, 6);
  image.rectangle(-20, 0, 10, 6, kRed);
  image.rectangle(8, 0, 10, 6, kRed);
  image.rectangle(0, 6, 8, 1, kRed);
  image.rectangle(3, 3, -2, -2, kRed);
  image.text(-4, -4, "clipped", kBlack);
  image.text(100, 100, "gone", kBlack);
  image.field(5, 5, 3, torch::zeros({4, 4}), Scale::kSequential, 0, 1);
  EXPECT_EQ(image.at(0, 5), kWhite);
}

TEST(ReportImage, FieldHasRowZeroAtTheTop) {
  Image image(10, 8);
  const auto values = torch::tensor({{0.0, 1.0, 2.0}, {3.0, 4.0, double{NAN}}});
  image.field(1, 2, 2, values.to(torch::kFloat32), Scale::kSequential, 0, 4);
  for (int64_t y = 0; y < 8; ++y) {
    for (int64_t x = 0; x < 10; ++x) {
      const bool inside = x >= 1 && x < 7 && y >= 2 && y < 6;
      const Rgb expected =
          inside
              ? colour_of(Scale::kSequential,
                          values[(y - 2) / 2][(x - 1) / 2].item<double>(), 0, 4)
              : kWhite;
      EXPECT_EQ(hex(image.at(x, y)), hex(expected)) << x << " " << y;
    }
  }
  EXPECT_EQ(image.at(6, 5), kNoValue);
}

TEST(ReportImage, ColourBarHasTheLargestValueAtTheTop) {
  Image image(4, 300);
  image.colour_bar(1, 10, 2, 256, Scale::kDiverging);
  EXPECT_EQ(image.at(1, 10), colour_map(Scale::kDiverging).back());
  EXPECT_EQ(image.at(2, 265), colour_map(Scale::kDiverging).front());
  EXPECT_EQ(image.at(1, 9), kWhite);
  EXPECT_EQ(image.at(1, 266), kWhite);
  EXPECT_EQ(image.at(0, 100), kWhite);
  EXPECT_EQ(image.at(3, 100), kWhite);
}

TEST(ReportImage, TextStaysInItsBox) {
  for (const int64_t size : {1, 2, 3}) {
    for (const std::string text : {"|#_g[|", "prediction", "#°#", "MW"}) {
      Image image(300, 60);
      image.text(7, 5, text, kBlack, size);
      const Ink count = ink(image, 7, 5, Image::text_width(text, size),
                            Image::text_height(size));
      EXPECT_GT(count.all, 0) << text;
      EXPECT_EQ(count.all, count.inside) << text;
    }
  }
  EXPECT_EQ(Image::text_width(""), 0);
  EXPECT_EQ(Image::text_width("ab", 1), 11);
  EXPECT_EQ(Image::text_width("°", 1), 5);  // one letter, though two bytes
}

TEST(ReportImage, TextIsReadable) {
  Image image(5, 9);
  image.text(0, 0, "F", kBlack, 1);
  std::string rows;
  for (int64_t y = 0; y < 9; ++y) {
    for (int64_t x = 0; x < 5; ++x) {
      rows += image.at(x, y) == kBlack ? '#' : '.';
    }
    rows += '\n';
  }
  EXPECT_EQ(rows,
            "#####\n#....\n#....\n####.\n#....\n#....\n#....\n.....\n.....\n");
}

std::vector<Rgb> drawn(const std::string& text) {
  Image image(11, 9);
  image.text(0, 0, text, kBlack, 1);
  return image.pixels();
}

TEST(ReportImage, EveryPrintableCharacterHasItsOwnForm) {
  std::map<std::string, char> forms;
  for (char c = ' '; c <= '~'; ++c) {
    if (c == 'O') continue;  // as the digit
    std::string form;
    for (const Rgb pixel : drawn(std::string(1, c))) {
      form += pixel == kBlack ? '#' : '.';
    }
    const auto [other, is_new] = forms.emplace(form, c);
    EXPECT_TRUE(is_new) << c << " looks like " << other->second;
  }
}

TEST(ReportImage, UnknownCharactersAreBoxes) {
  const auto box = drawn("\t");
  EXPECT_EQ(drawn("\u4e2d"), box);      // three bytes
  EXPECT_EQ(drawn("\U0001f600"), box);  // four
  EXPECT_EQ(drawn("\xf0\x9f"), box);    // cut off
  EXPECT_NE(drawn("°"), box);
  EXPECT_NE(drawn("a"), box);
}

// The corners of the first panel have the colours of the row's scale, which
// both panels share; a constant row has a picture too.
TEST(ReportImage, SheetHasRowsOnScalesOfTheirOwn) {
  const auto panel = torch::tensor({{0.0, 1.0}, {2.0, 3.0}});
  const Image image =
      field_sheet({{"u", {"frame 0", "frame 9"}, {panel, 4 * panel}},
                   {"v", {"frame 0"}, {torch::ones({2, 2})}}});
  const auto& colours = colour_map(Scale::kSequential);
  std::map<size_t, int64_t> seen;  // of 0, 1/4, 1 of the scale
  for (const auto& pixel : image.pixels()) {
    for (const size_t n : {size_t{0}, size_t{255}}) {
      if (pixel == colours[n]) ++seen[n];
    }
  }
  const int64_t quarter = 90 * 90;  // of a panel of two by two
  // Zeros of both panels and the constant; 12 of the second panel.
  EXPECT_NEAR(seen[0], 2 * quarter + 4 * quarter, 200);
  EXPECT_NEAR(seen[255], quarter, 200);
  // 3, the largest of the first panel alone, is a quarter of the scale.
  const auto third = colour_of(Scale::kSequential, 3, 0, 12);
  EXPECT_GE(std::ranges::count(image.pixels(), third), quarter);
}

TEST(ReportImage, SheetOfLargePanelsIsNoLargerThanAScreen) {
  const Image image =
      field_sheet({{"u", {"case 1"}, {torch::rand({40, 5000})}}});
  EXPECT_LT(image.width(), 700);
  EXPECT_LT(image.height(), 300);
}

}  // namespace
}  // namespace propagator::report
