#include "propagator/report/image.h"

#include <algorithm>
#include <cmath>

#include "propagator/report/font.h"

namespace propagator::report {
namespace {

constexpr int64_t kAdvance = kGlyphWidth + 1;

// Takes the first character off UTF-8 text; a broken sequence counts as one
// character that no font has.
char32_t take_character(std::string_view& text) {
  const auto first = static_cast<uint8_t>(text.front());
  const size_t length = first < 0x80   ? 1
                        : first < 0xe0 ? 2
                        : first < 0xf0 ? 3
                                       : 4;
  char32_t character = length == 1 ? first : first & (0xff >> (length + 1));
  for (size_t i = 1; i < std::min(length, text.size()); ++i) {
    character = character << 6 | (static_cast<uint8_t>(text[i]) & 0x3f);
  }
  text.remove_prefix(std::min(length, text.size()));
  return character;
}

}  // namespace

Image::Image(int64_t width, int64_t height, Rgb background)
    : width_(width),
      height_(height),
      pixels_(static_cast<size_t>(width * height), background) {}

void Image::rectangle(int64_t x, int64_t y, int64_t width, int64_t height,
                      Rgb colour) {
  const int64_t left = std::clamp<int64_t>(x, 0, width_);
  const int64_t right = std::clamp<int64_t>(x + width, left, width_);
  const int64_t top = std::clamp<int64_t>(y, 0, height_);
  const int64_t bottom = std::clamp<int64_t>(y + height, top, height_);
  for (int64_t row = top; row < bottom; ++row) {
    const auto line = pixels_.begin() + row * width_;
    std::fill(line + left, line + right, colour);
  }
}

void Image::ring(int64_t x, int64_t y, double inner, double outer, Rgb colour) {
  const auto reach = static_cast<int64_t>(std::ceil(outer));
  for (int64_t down = -reach; down <= reach; ++down) {
    for (int64_t right = -reach; right <= reach; ++right) {
      const double far = std::hypot(down, right);
      if (far <= inner || far > outer) continue;
      rectangle(x + right, y + down, 1, 1, colour);
    }
  }
}

void Image::field(int64_t x, int64_t y, int64_t cell,
                  const torch::Tensor& values, Scale scale, double low,
                  double high) {
  const auto copy =
      values.detach().to(torch::kCPU, torch::kFloat64).contiguous();
  const auto at = copy.accessor<double, 2>();
  for (int64_t r = 0; r < copy.size(0); ++r) {
    for (int64_t c = 0; c < copy.size(1); ++c) {
      rectangle(x + c * cell, y + r * cell, cell, cell,
                colour_of(scale, at[r][c], low, high));
    }
  }
}

void Image::colour_bar(int64_t x, int64_t y, int64_t width, int64_t height,
                       Scale scale) {
  for (int64_t row = 0; row < height; ++row) {
    rectangle(x, y + row, width, 1,
              colour_of(scale, static_cast<double>(height - row) - 0.5, 0,
                        static_cast<double>(height)));
  }
}

void Image::text(int64_t x, int64_t y, std::string_view text, Rgb colour,
                 int64_t size) {
  for (; !text.empty(); x += kAdvance * size) {
    const Glyph& rows = glyph(take_character(text));
    for (int64_t r = 0; r < kGlyphHeight; ++r) {
      for (int64_t c = 0; c < kGlyphWidth; ++c) {
        if ((rows[static_cast<size_t>(r)] >> (kGlyphWidth - 1 - c) & 1) != 0) {
          rectangle(x + c * size, y + r * size, size, size, colour);
        }
      }
    }
  }
}

int64_t Image::text_width(std::string_view text, int64_t size) {
  int64_t letters = 0;
  for (; !text.empty(); ++letters) take_character(text);
  return letters == 0 ? 0 : (letters * kAdvance - 1) * size;
}

int64_t Image::text_height(int64_t size) { return kGlyphHeight * size; }

}  // namespace propagator::report
