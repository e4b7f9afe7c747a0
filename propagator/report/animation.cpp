#include "propagator/report/animation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "propagator/core/error.h"
#include "propagator/core/log.h"
#include "propagator/core/process.h"
#include "propagator/report/png.h"
#include "propagator/report/scale_bar.h"

namespace propagator::report {
namespace {

constexpr int64_t kVideoFrames = 200, kPngFrames = 60;

constexpr Rgb kText{51, 51, 51}, kFrame{110, 110, 110}, kTrack{225, 225, 225};
constexpr const char* kTitles[] = {"truth", "prediction", "error"};

constexpr int64_t kPanel = 260;  // about, the longer side
constexpr int64_t kMargin = 24;
constexpr int64_t kGap = 24;      // between panels
constexpr int64_t kBarGap = 12;   // panel to bar
constexpr int64_t kLineGap = 14;  // between lines of text
constexpr int64_t kProgressHeight = 3;
constexpr double kRing = 2.5;  // radius of a sensor's ring
constexpr Rgb kInk{255, 255, 255}, kRim{40, 40, 40};  // of it

// Where everything lies; the same for all frames of a series. Cases stand below
// one another, their panels in columns.
struct FrameLayout {
  int64_t cell, field_width, field_height;
  int64_t column, height;  // the room of a panel
  std::vector<int64_t> x;  // of the panels' rooms
  int64_t value_bar, error_bar, right;
  struct Case {
    ScaleBar values, errors;
    int64_t name_y, title_y = 0, panel_y = 0;
  };
  std::vector<Case> cases;
  int64_t time_y, progress_y;
  int64_t image_width, image_height;
};

// Bars and numbers behind the panels.
void place_columns(FrameLayout& at, bool has_truth) {
  int64_t values = 0, errors = 0;
  for (const auto& one : at.cases) {
    values = std::max(values, kBarGap + one.values.width());
    errors = std::max(errors, kBarGap + one.errors.width());
  }
  at.x = {kMargin};
  if (has_truth) at.x.push_back(at.x[0] + at.column + kGap);
  at.value_bar = at.x.back() + at.column + kBarGap;
  at.right = at.x.back() + at.column + values;
  if (!has_truth) return;
  at.x.push_back(at.right + 2 * kGap);
  at.error_bar = at.x.back() + at.column + kBarGap;
  at.right = at.x.back() + at.column + errors;
}

FrameLayout layout_of(const FieldSeries& series,
                      const std::vector<ShownCase>& cases) {
  const int64_t rows = series.prediction.size(2);
  const int64_t columns = series.prediction.size(3);
  FrameLayout at{};
  at.cell = std::max<int64_t>(1, kPanel / std::max(rows, columns));
  at.field_width = columns * at.cell;
  at.field_height = rows * at.cell;
  at.column = std::max(at.field_width, Image::text_width(kTitles[1]));
  at.height = std::max(at.field_height, 3 * Image::text_height());
  int64_t y = kMargin;
  for (const auto& [index, range] : cases) {
    FrameLayout::Case one{{Scale::kSequential, range.low, range.high},
                          {Scale::kDiverging, -range.error, range.error},
                          y};
    one.title_y = one.name_y + Image::text_height() + kLineGap;
    one.panel_y = one.title_y + Image::text_height() + kLineGap / 2;
    y = one.panel_y + at.height + kLineGap + ScaleBar::overhang();
    at.cases.push_back(std::move(one));
  }
  place_columns(at, series.truth.defined());
  at.time_y = y;
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

// Values as a panel: which title, in which column, at which height, and how.
struct ShownPanel {
  const char* title;
  int64_t x, title_y, panel_y;
  Scale scale;
  double low, high;
};

void draw_panel(Image& image, const FrameLayout& at, const ShownPanel& panel,
                const torch::Tensor& values) {
  const int64_t over = (at.column - Image::text_width(panel.title)) / 2;
  image.text(panel.x + over, panel.title_y, panel.title, kText);
  const int64_t x = panel.x + (at.column - at.field_width) / 2;
  const int64_t y = panel.panel_y + (at.height - at.field_height) / 2;
  image.rectangle(x - 1, y - 1, at.field_width + 2, at.field_height + 2,
                  kFrame);
  image.field(x, y, at.cell, values, panel.scale, panel.low, panel.high);
}

// A light ring with a dark rim is seen on any colour.
void draw_sensors(Image& image, const FrameLayout& at,
                  const std::vector<NodePlace>& sensors, int64_t column_x,
                  int64_t panel_y) {
  const int64_t left = column_x + (at.column - at.field_width) / 2;
  const int64_t top = panel_y + (at.height - at.field_height) / 2;
  const auto pixels = [&](double node) {
    return std::llround((node + 0.5) * static_cast<double>(at.cell) - 0.5);
  };
  for (const auto& [column, row] : sensors) {
    const int64_t x = left + pixels(column), y = top + pixels(row);
    image.ring(x, y, kRing, kRing + 1, kRim);
    image.ring(x, y, kRing - 1, kRing, kInk);
  }
}

// Name, panels and bars of one case.
void draw_case(Image& image, const FieldSeries& series, const FrameLayout& at,
               const FrameLayout::Case& place, const ShownCase& shown,
               int64_t frame) {
  const auto in_float64 = [&](const torch::Tensor& fields) {
    return fields[shown.index][frame].detach().to(torch::kCPU, torch::kFloat64);
  };
  const auto& range = shown.range;
  image.text(kMargin, place.name_y,
             fitted(series.title(shown.index), at.right - kMargin), kText);
  const auto draw = [&](size_t column, const char* title, Scale scale,
                        double low, double high, const torch::Tensor& values) {
    draw_panel(
        image, at,
        {title, at.x[column], place.title_y, place.panel_y, scale, low, high},
        values);
  };
  using enum Scale;
  const auto prediction = in_float64(series.prediction);
  place.values.draw(image, at.value_bar, place.panel_y, at.height);
  const auto sensors =
      series.sensors_near(shown.index)[static_cast<size_t>(frame)];
  const auto sensors_over = [&](size_t column) {
    draw_sensors(image, at, sensors, at.x[column], place.panel_y);
  };
  if (!series.truth.defined()) {
    draw(0, kTitles[1], kSequential, range.low, range.high, prediction);
    sensors_over(0);
    return;
  }
  const auto truth = in_float64(series.truth);
  draw(0, kTitles[0], kSequential, range.low, range.high, truth);
  draw(1, kTitles[1], kSequential, range.low, range.high, prediction);
  draw(2, kTitles[2], kDiverging, -range.error, range.error,
       prediction - truth);
  sensors_over(0);
  sensors_over(2);
  place.errors.draw(image, at.error_bar, place.panel_y, at.height);
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
                 const FieldSeries& series,
                 const std::vector<ShownCase>& cases) {
  const FrameLayout at = layout_of(series, cases);
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
                     "23",
                     "-preset",
                     "medium",
                     "-movflags",
                     "+faststart",
                     "-f",
                     "mp4",
                     fs::absolute(temporary).string()});
    bool reading = true;
    for (size_t t = 0; reading && t < series.times.size(); ++t) {
      reading = encoder.write(
          bytes_of(draw_frame(series, cases, static_cast<int64_t>(t))));
    }
    const auto [status, output] = encoder.wait();
    if (!reading || status != 0) {
      throw FileError(fmt::format("ffmpeg ended with {}\n{}", status, output));
    }
  });
}

}  // namespace

Image draw_frame(const FieldSeries& series, const std::vector<ShownCase>& cases,
                 int64_t frame) {
  const FrameLayout at = layout_of(series, cases);
  const int64_t width = at.right - kMargin;
  Image image(at.image_width, at.image_height);
  for (size_t n = 0; n < cases.size(); ++n) {
    draw_case(image, series, at, at.cases[n], cases[n], frame);
  }
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

fs::path write_animation(const FieldSeries& series,
                         const std::vector<int64_t>& indices,
                         const fs::path& stem) {
  std::vector<ShownCase> cases;
  for (const int64_t index : indices) {
    cases.push_back({index, range_of(series, index)});
  }
  if (const auto ffmpeg = find_program("ffmpeg"); !ffmpeg.empty()) {
    const fs::path video = fs::path(stem) += ".mp4";
    try {
      write_video(video, ffmpeg, series.thinned(kVideoFrames), cases);
      return video;
    } catch (const FileError& error) {
      log::warn("{} could not be made: {}", video.string(), error.what());
    }
  }
  if (!has_png()) return {};
  const FieldSeries few = series.thinned(kPngFrames);
  std::vector<Image> frames;
  for (size_t t = 0; t < few.times.size(); ++t) {
    frames.push_back(draw_frame(few, cases, static_cast<int64_t>(t)));
  }
  const fs::path picture = fs::path(stem) += ".png";
  write_animated_png(picture, frames, rate_of(frames.size()));
  return picture;
}

}  // namespace propagator::report
