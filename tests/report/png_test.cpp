#include "propagator/report/png.h"

#include <png.h>
#include <zlib.h>

#include "propagator/core/error.h"
#include "testing.h"

namespace propagator::report {
namespace {

using testing::TemporaryFolder;

// Something in every corner; `shift` makes another picture of it.
Image example(int64_t width, int64_t height, int64_t shift = 0) {
  Image image(width, height);
  image.rectangle(0, 0, 2, 1, {255, 0, 0});
  image.rectangle(width - 1, height - 2, 1, 2, {1, 2, 3});
  image.field(3 + shift, 2, 3, torch::arange(12.0).reshape({3, 4}),
              Scale::kSequential, 0, 11);
  image.text(1, 8, std::to_string(shift), {9, 9, 9}, 1);
  return image;
}

std::vector<Rgb> decoded(const fs::path& path) {
  png_image header{};
  header.version = PNG_IMAGE_VERSION;
  EXPECT_NE(png_image_begin_read_from_file(&header, path.c_str()), 0);
  header.format = PNG_FORMAT_RGB;
  std::vector<Rgb> pixels(header.width * header.height);
  EXPECT_NE(png_image_finish_read(&header, nullptr, pixels.data(), 0, nullptr),
            0)
      << header.message;
  return pixels;
}

uint32_t number(const std::string& bytes, size_t at, size_t size = 4) {
  uint32_t value = 0;
  for (size_t i = 0; i < size; ++i) {
    value = value << 8 | static_cast<uint8_t>(bytes[at + i]);
  }
  return value;
}

struct Chunk {
  std::string type, data;
};

std::vector<Chunk> chunks_of(const std::string& png) {
  EXPECT_EQ(png.substr(0, 8), "\x89PNG\r\n\x1a\n");
  std::vector<Chunk> chunks;
  for (size_t at = 8; at + 12 <= png.size();) {
    const uint32_t size = number(png, at);
    const std::string content = png.substr(at + 4, size + 4);
    EXPECT_EQ(crc32(0, reinterpret_cast<const Bytef*>(content.data()),
                    static_cast<uInt>(content.size())),
              number(png, at + 8 + size));
    chunks.push_back({content.substr(0, 4), content.substr(4)});
    at += size + 12;
  }
  return chunks;
}

// A frame's pixels from its compressed data: rows of RGB behind a filter byte,
// by the formulas of the standard.
std::string unpacked(const std::string& data, size_t width, size_t height) {
  const size_t row = 3 * width;
  std::string raw((row + 1) * height, '\0');
  uLongf size = raw.size();
  EXPECT_EQ(
      uncompress(reinterpret_cast<Bytef*>(raw.data()), &size,
                 reinterpret_cast<const Bytef*>(data.data()), data.size()),
      Z_OK);
  EXPECT_EQ(size, raw.size());
  std::vector<uint8_t> pixels(row * height);
  const auto at = [&](size_t y, size_t x) -> int {
    return y < height && x < row ? pixels[y * row + x] : 0;  // -1 wraps
  };
  for (size_t y = 0; y < height; ++y) {
    const int filter = raw[y * (row + 1)];
    for (size_t x = 0; x < row; ++x) {
      const int left = at(y, x - 3), up = at(y - 1, x);
      const int corner = at(y - 1, x - 3);
      const int a = std::abs(up - corner), b = std::abs(left - corner);
      const int c = std::abs(left + up - 2 * corner);
      const int paeth = a <= b && a <= c ? left : b <= c ? up : corner;
      const int guesses[] = {0, left, up, (left + up) / 2, paeth};
      const int value = static_cast<uint8_t>(raw[y * (row + 1) + 1 + x]);
      pixels[y * row + x] = static_cast<uint8_t>(value + guesses[filter]);
    }
  }
  return {pixels.begin(), pixels.end()};
}

TEST(ReportPng, PictureReadsBack) {
  const TemporaryFolder folder;
  const Image image = example(37, 23);
  write_png(folder / "a.png", image);
  EXPECT_TRUE(decoded(folder / "a.png") == image.pixels());
}

TEST(ReportPng, FramesReadBack) {
  const TemporaryFolder folder;
  std::vector<Image> frames;
  for (int64_t n = 0; n < 5; ++n) frames.push_back(example(37, 23, n));
  write_animated_png(folder / "a.png", frames, 4);
  EXPECT_TRUE(decoded(folder / "a.png") == frames[0].pixels());

  const auto chunks = chunks_of(read_file(folder / "a.png"));
  uint32_t sequence = 0, controls = 0;
  std::vector<std::string> data;
  for (const auto& [type, content] : chunks) {
    if (type == "acTL") {
      EXPECT_TRUE(data.empty());
      EXPECT_EQ(number(content, 0), 5u);
      EXPECT_EQ(number(content, 4), 0u);  // for ever
    } else if (type == "fcTL") {
      ASSERT_EQ(content.size(), 26u);
      EXPECT_EQ(number(content, 0), sequence++);
      EXPECT_EQ(number(content, 4), 37u);
      EXPECT_EQ(number(content, 8), 23u);
      EXPECT_EQ(number(content, 12), 0u);
      EXPECT_EQ(number(content, 16), 0u);
      EXPECT_EQ(number(content, 20, 2), 250u);  // of 1000
      EXPECT_EQ(number(content, 22, 2), 1000u);
      data.emplace_back();
      ++controls;
    } else if (type == "IDAT") {
      ASSERT_EQ(data.size(), 1u);
      data.back() += content;
    } else if (type == "fdAT") {
      ASSERT_GT(data.size(), 1u);
      EXPECT_EQ(number(content, 0), sequence++);
      data.back() += content.substr(4);
    }
  }
  EXPECT_EQ(controls, 5u);
  EXPECT_EQ(chunks.front().type, "IHDR");
  EXPECT_EQ(chunks.back().type, "IEND");
  ASSERT_EQ(data.size(), frames.size());
  for (size_t n = 0; n < frames.size(); ++n) {
    const auto& pixels = frames[n].pixels();
    const std::string expected(reinterpret_cast<const char*>(pixels.data()),
                               3 * pixels.size());
    EXPECT_TRUE(unpacked(data[n], 37, 23) == expected) << "frame " << n;
  }
}

TEST(ReportPng, BadFramesLeaveTheOldFile) {
  const TemporaryFolder folder;
  write_file_atomically(folder / "a.png", "old");
  const std::vector<Image> frames{Image(4, 4), Image(5, 4)};
  EXPECT_THROW(write_animated_png(folder / "a.png", frames, 4), UsageError);
  EXPECT_THROW(write_animated_png(folder / "a.png", {}, 4), UsageError);
  EXPECT_THROW(write_png(folder / "a.png", Image(0, 4)), UsageError);
  EXPECT_EQ(read_file(folder / "a.png"), "old");
}

}  // namespace
}  // namespace propagator::report
