#include "propagator/report/png.h"

#include <fmt/format.h>
#include <png.h>
#include <zlib.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "propagator/core/error.h"

namespace propagator::report {
namespace {

constexpr size_t kSignatureSize = 8;

std::string encode(const Image& image) {
  static_assert(sizeof(Rgb) == 3);
  png_image header{};
  header.version = PNG_IMAGE_VERSION;
  header.width = static_cast<png_uint_32>(image.width());
  header.height = static_cast<png_uint_32>(image.height());
  header.format = PNG_FORMAT_RGB;
  std::string bytes(PNG_IMAGE_PNG_SIZE_MAX(header), '\0');
  png_alloc_size_t size = bytes.size();
  if (png_image_write_to_memory(&header, bytes.data(), &size, 0,
                                image.pixels().data(), 0, nullptr) == 0) {
    throw UsageError(fmt::format("[png] {} x {} pixels: {}", image.width(),
                                 image.height(), header.message));
  }
  bytes.resize(size);
  return bytes;
}

std::string big_endian(uint32_t value) {
  std::string bytes(4, '\0');
  png_save_uint_32(reinterpret_cast<png_bytep>(bytes.data()), value);
  return bytes;
}

struct Chunk {
  std::string type, data;
};

std::vector<Chunk> chunks_of(const std::string& png) {
  std::vector<Chunk> chunks;
  for (size_t at = kSignatureSize; at < png.size();) {
    const size_t size =
        png_get_uint_32(reinterpret_cast<png_const_bytep>(png.data() + at));
    chunks.push_back({png.substr(at + 4, 4), png.substr(at + 8, size)});
    at += size + 12;  // length, type and check sum
  }
  return chunks;
}

void append(std::string& png, const Chunk& chunk) {
  const std::string content = chunk.type + chunk.data;
  const auto sum = crc32(0, reinterpret_cast<const Bytef*>(content.data()),
                         static_cast<uInt>(content.size()));
  png += big_endian(static_cast<uint32_t>(chunk.data.size())) + content +
         big_endian(static_cast<uint32_t>(sum));
}

Chunk animation_control(size_t frames) {
  return {"acTL", big_endian(static_cast<uint32_t>(frames)) +
                      big_endian(0)};  // 0: for ever
}

// A whole picture, shown for `milliseconds`, in place of the one before.
Chunk frame_control(uint32_t sequence, const Image& image,
                    uint32_t milliseconds) {
  return {"fcTL", big_endian(sequence) +
                      big_endian(static_cast<uint32_t>(image.width())) +
                      big_endian(static_cast<uint32_t>(image.height())) +
                      big_endian(0) + big_endian(0) +
                      big_endian(milliseconds << 16 | 1000) +
                      std::string(2, '\0')};
}

}  // namespace

std::string png_of(const Image& image) { return encode(image); }

void write_png(const fs::path& path, const Image& image) {
  write_file_atomically(path, encode(image));
}

// libpng writes each frame as a picture of its own; the first one's chunks stay
// as they are, and the others' data become chunks of frame data.
void write_animated_png(const fs::path& path, std::span<const Image> frames,
                        double frames_per_second) {
  if (frames.empty()) throw UsageError("[png] an animation without frames");
  const auto milliseconds = static_cast<uint32_t>(
      std::clamp(std::round(1000 / frames_per_second), 1.0, 65535.0));
  uint32_t sequence = 0;
  std::string png;
  for (const Image& frame : frames) {
    if (frame.width() != frames[0].width() ||
        frame.height() != frames[0].height()) {
      throw UsageError(fmt::format(
          "[png] expected frames of {} x {} but got {} x {}", frames[0].width(),
          frames[0].height(), frame.width(), frame.height()));
    }
    const bool first = png.empty();
    const std::string picture = encode(frame);
    if (first) png = picture.substr(0, kSignatureSize);
    bool controlled = false;
    for (const Chunk& chunk : chunks_of(picture)) {
      const bool is_data = chunk.type == "IDAT";
      if (is_data && !controlled) {
        if (first) append(png, animation_control(frames.size()));
        append(png, frame_control(sequence++, frame, milliseconds));
        controlled = true;
      }
      if (first && chunk.type != "IEND") {
        append(png, chunk);
      } else if (is_data) {
        append(png, {"fdAT", big_endian(sequence++) + chunk.data});
      }
    }
  }
  append(png, {"IEND", ""});
  write_file_atomically(path, png);
}

bool has_png() { return true; }

}  // namespace propagator::report
