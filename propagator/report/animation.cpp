#include "propagator/report/animation.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>

#include "propagator/core/error.h"
#include "propagator/core/log.h"
#include "propagator/core/process.h"
#include "propagator/report/png.h"

namespace propagator::report {
namespace {

constexpr int64_t kVideoFrames = 200, kPngFrames = 60;

constexpr Rgb kText{51, 51, 51}, kFrame{110, 110, 110}, kTrack{225, 225, 225};
constexpr const char* kTitles[] = {"truth", "prediction", "error"};

constexpr int64_t kPanel = 260;  // about, the longer side
constexpr int64_t kMargin = 24;
constexpr int64_t kGap = 24;                       // between panels
constexpr int64_t kBarWidth = 14, kBarGap = 12;    // gap: panel to bar
constexpr int64_t kTickWidth = 4, kNumberGap = 5;  // gap: tick to number
constexpr int64_t kLineGap = 14;                   // between lines of text
constexpr int64_t kProgressHeight = 3;
constexpr int64_t kCapital = 7 * 2;  // a capital letter's height

using Numbers = std::array<std::string, 3>;

// Beside a colour bar: with digits enough that none is off by more than a two
// hundredth of the scale, and with signs on a scale about zero.
Numbers numbers(double low, double high) {
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

int64_t width_of(const Numbers& texts) {
  int64_t width = 0;
  for (const auto& text : texts) {
    width = std::max(width, Image::text_width(text));
  }
  return width;
}

// Where everything lies; the same for all frames of a series.
struct FrameLayout {
  int64_t cell, field_width, field_height;
  int64_t column, height;    // the room of a panel
  Numbers values, errors;    // beside the bars
  std::array<int64_t, 3> x;  // of the panels' rooms
  int64_t value_bar, error_bar, right;
  int64_t title_y, panel_y, time_y, progress_y;
  int64_t image_width, image_height;
};

FrameLayout layout_of(const FieldSeries& series, const FieldRange& range) {
  const int64_t rows = series.truth.size(2), columns = series.truth.size(3);
  FrameLayout at{};
  at.cell = std::max<int64_t>(1, kPanel / std::max(rows, columns));
  at.field_width = columns * at.cell;
  at.field_height = rows * at.cell;
  at.column = std::max(at.field_width, Image::text_width(kTitles[1]));
  at.height = std::max(at.field_height, 3 * Image::text_height());
  at.values = numbers(range.low, range.high);
  at.errors = numbers(-range.error, range.error);

  const auto bar_room = [](const Numbers& texts) {
    return kBarGap + kBarWidth + kTickWidth + kNumberGap + width_of(texts);
  };
  at.x[0] = kMargin;
  at.x[1] = at.x[0] + at.column + kGap;
  at.value_bar = at.x[1] + at.column + kBarGap;
  at.x[2] = at.x[1] + at.column + bar_room(at.values) + 2 * kGap;
  at.error_bar = at.x[2] + at.column + kBarGap;
  at.right = at.x[2] + at.column + bar_room(at.errors);

  at.title_y = kMargin + Image::text_height() + kLineGap;
  at.panel_y = at.title_y + Image::text_height() + kLineGap / 2;
  at.time_y = at.panel_y + at.height + kLineGap + kCapital / 2;
  at.progress_y = at.time_y + Image::text_height() + kLineGap / 2;

  // Even numbers, for videos that store colours at half the resolution.
  const auto even = [](int64_t n) { return n + n % 2; };
  at.image_width = even(at.right + kMargin);
  at.image_height = even(at.progress_y + kProgressHeight + kMargin);
  return at;
}

// Cut off with dots where it is wider than `width`.
std::string fitted(std::string text, int64_t width) {
  if (Image::text_width(text) <= width) return text;
  while (!text.empty() && Image::text_width(text + "...") > width) {
    while ((text.back() & 0xc0) == 0x80) text.pop_back();  // within a character
    text.pop_back();
  }
  return text + "...";
}

void draw_panel(Image& image, const FrameLayout& at, size_t panel,
                const torch::Tensor& values, Scale scale, double low,
                double high) {
  const std::string title = kTitles[panel];
  image.text(at.x[panel] + (at.column - Image::text_width(title)) / 2,
             at.title_y, title, kText);
  const int64_t x = at.x[panel] + (at.column - at.field_width) / 2;
  const int64_t y = at.panel_y + (at.height - at.field_height) / 2;
  image.rectangle(x - 1, y - 1, at.field_width + 2, at.field_height + 2,
                  kFrame);
  image.field(x, y, at.cell, values, scale, low, high);
}

void draw_bar(Image& image, const FrameLayout& at, int64_t x, Scale scale,
              const Numbers& texts) {
  image.rectangle(x - 1, at.panel_y - 1, kBarWidth + 2, at.height + 2, kFrame);
  image.colour_bar(x, at.panel_y, kBarWidth, at.height, scale);
  const int64_t right = x + kBarWidth;
  for (int64_t n = 0; n < 3; ++n) {
    const int64_t y = at.panel_y + (2 - n) * (at.height - 1) / 2;
    image.rectangle(right, y, kTickWidth, 1, kFrame);
    image.text(right + kTickWidth + kNumberGap, y - kCapital / 2,
               texts[static_cast<size_t>(n)], kText);
  }
}

double rate_of(size_t frames) {
  return std::clamp(static_cast<double>(frames) / 8, 4.0, 25.0);
}

std::string_view bytes_of(const Image& image) {
  return {reinterpret_cast<const char*>(image.pixels().data()),
          image.pixels().size() * sizeof(Rgb)};
}

// FileError if ffmpeg cannot do it.
void write_video(const fs::path& path, const fs::path& ffmpeg,
                 const FieldSeries& series, const FieldRange& range,
                 int64_t index) {
  const FrameLayout at = layout_of(series, range);
  write_atomically(path, [&](const fs::path& temporary) {
    Process encoder(ffmpeg,
                    {"-loglevel",
                     "error",
                     "-y",
                     "-f",
                     "rawvideo",
                     "-pix_fmt",
                     "rgb24",
                     "-s",
                     fmt::format("{}x{}", at.image_width, at.image_height),
                     "-r",
                     fmt::format("{}", rate_of(series.times.size())),
                     "-i",
                     "-",
                     "-c:v",
                     "libx264",
                     "-pix_fmt",
                     "yuv420p",
                     "-crf",
                     "20",
                     "-movflags",
                     "+faststart",
                     "-f",
                     "mp4",
                     fs::absolute(temporary).string()});
    bool reading = true;
    for (size_t t = 0; reading && t < series.times.size(); ++t) {
      reading = encoder.write(
          bytes_of(draw_frame(series, range, index, static_cast<int64_t>(t))));
    }
    const auto [status, output] = encoder.wait();
    if (!reading || status != 0) {
      throw FileError(fmt::format("ffmpeg ended with {}\n{}", status, output));
    }
  });
}

}  // namespace

Image draw_frame(const FieldSeries& series, const FieldRange& range,
                 int64_t index, int64_t frame) {
  const auto in_float64 = [&](const torch::Tensor& fields) {
    return fields[index][frame].detach().to(torch::kCPU, torch::kFloat64);
  };
  const auto truth = in_float64(series.truth);
  const auto prediction = in_float64(series.prediction);
  const FrameLayout at = layout_of(series, range);
  const int64_t width = at.right - kMargin;
  Image image(at.image_width, at.image_height);

  const std::string& name = series.cases[static_cast<size_t>(index)];
  image.text(kMargin, kMargin, fitted(series.label() + ", " + name, width),
             kText);
  draw_panel(image, at, 0, truth, Scale::kSequential, range.low, range.high);
  draw_panel(image, at, 1, prediction, Scale::kSequential, range.low,
             range.high);
  draw_panel(image, at, 2, prediction - truth, Scale::kDiverging, -range.error,
             range.error);
  draw_bar(image, at, at.value_bar, Scale::kSequential, at.values);
  draw_bar(image, at, at.error_bar, Scale::kDiverging, at.errors);

  const double time = series.times[static_cast<size_t>(frame)];
  image.text(kMargin, at.time_y,
             fitted(fmt::format("{} = {:.6g}", series.time_label, time), width),
             kText);
  const auto last = static_cast<int64_t>(series.times.size()) - 1;
  image.rectangle(kMargin, at.progress_y, width, kProgressHeight, kTrack);
  image.rectangle(kMargin, at.progress_y,
                  last > 0 ? width * frame / last : width, kProgressHeight,
                  series_colour(0));
  return image;
}

fs::path write_animation(const FieldSeries& series, int64_t index,
                         const fs::path& stem) {
  const FieldRange range = range_of(series, index);
  if (const auto ffmpeg = find_program("ffmpeg"); !ffmpeg.empty()) {
    const fs::path video = fs::path(stem) += ".mp4";
    try {
      write_video(video, ffmpeg, series.thinned(kVideoFrames), range, index);
      return video;
    } catch (const FileError& error) {
      log::warn("{} could not be made: {}", video.string(), error.what());
    }
  }
  if (!has_png()) return {};
  const FieldSeries few = series.thinned(kPngFrames);
  std::vector<Image> frames;
  for (size_t t = 0; t < few.times.size(); ++t) {
    frames.push_back(draw_frame(few, range, index, static_cast<int64_t>(t)));
  }
  const fs::path picture = fs::path(stem) += ".png";
  write_animated_png(picture, frames, rate_of(frames.size()));
  return picture;
}

}  // namespace propagator::report
