#include "propagator/report/animation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>

#include "propagator/core/process.h"
#include "propagator/report/png.h"
#include "testing.h"

namespace propagator::report {
namespace {

using testing::TemporaryFolder;

// Two plates of R x C nodes, and predictions a little off.
FieldSeries example(int64_t frames, int64_t rows = 20, int64_t columns = 30) {
  FieldSeries series;
  series.quantity = "temperature";
  series.unit = "K";
  series.cases = {"plate 1", "plate 2"};
  const std::vector<int64_t> shape{2, frames, rows, columns};
  series.truth = testing::random(shape, "truth") + 300;
  series.prediction = series.truth + 0.01 * testing::random(shape, "error");
  for (int64_t t = 0; t < frames; ++t) {
    series.times.push_back(static_cast<double>(t));
  }
  return series;
}

// Whether a rectangle of the image is this field, cell by cell.
bool shows(const Image& image, int64_t cell, const torch::Tensor& field,
           Scale scale, double low, double high) {
  Image expected(field.size(1) * cell, field.size(0) * cell);
  expected.field(0, 0, cell, field, scale, low, high);
  const auto matches = [&](int64_t left, int64_t top) {
    for (int64_t y = 0; y < expected.height(); ++y) {
      for (int64_t x = 0; x < expected.width(); ++x) {
        if (image.at(left + x, top + y) != expected.at(x, y)) return false;
      }
    }
    return true;
  };
  for (int64_t top = 0; top + expected.height() <= image.height(); ++top) {
    for (int64_t left = 0; left + expected.width() <= image.width(); ++left) {
      if (matches(left, top)) return true;
    }
  }
  return false;
}

TEST(ReportAnimation, FrameShowsTheThreeFields) {
  const auto series = example(3);
  const auto range = range_of(series, 1);
  const Image image = draw_frame(series, {{1, range}}, 2);
  const auto truth = series.truth[1][2], prediction = series.prediction[1][2];
  EXPECT_TRUE(
      shows(image, 260 / 30, truth, Scale::kSequential, range.low, range.high));
  EXPECT_TRUE(shows(image, 260 / 30, prediction, Scale::kSequential, range.low,
                    range.high));
  EXPECT_TRUE(shows(image, 260 / 30, prediction - truth, Scale::kDiverging,
                    -range.error, range.error));
  EXPECT_FALSE(shows(image, 260 / 30, series.truth[0][2], Scale::kSequential,
                     range.low, range.high));
}

TEST(ReportAnimation, CasesStandBelowOneAnotherEachOnItsOwnScale) {
  auto series = example(2);
  series.truth[1] *= 5;
  const auto first = range_of(series, 0), second = range_of(series, 1);
  const Image image = draw_frame(series, {{0, first}, {1, second}}, 1);
  EXPECT_TRUE(shows(image, 260 / 30, series.truth[0][1], Scale::kSequential,
                    first.low, first.high));
  EXPECT_TRUE(shows(image, 260 / 30, series.truth[1][1], Scale::kSequential,
                    second.low, second.high));
  const Image one = draw_frame(series, {{0, first}}, 1);
  EXPECT_FALSE(shows(one, 260 / 30, series.truth[1][1], Scale::kSequential,
                     second.low, second.high));
  EXPECT_GT(image.height(), one.height() + 260 / 30 * 20);
}

TEST(ReportAnimation, WithoutATruthThePredictionIsAlone) {
  auto series = example(2);
  const auto with = draw_frame(series, {{0, range_of(series, 0)}}, 1);
  series.truth = torch::Tensor();
  const auto range = range_of(series, 0);
  const Image image = draw_frame(series, {{0, range}}, 1);
  EXPECT_TRUE(shows(image, 260 / 30, series.prediction[0][1],
                    Scale::kSequential, range.low, range.high));
  EXPECT_LT(image.width(), with.width() / 2);
  EXPECT_EQ(series.thinned(2).prediction.size(1), 2);
}

TEST(ReportAnimation, FramesHaveOneEvenSize) {
  for (const int64_t rows : {1, 7, 64, 301}) {
    const auto series = example(4, rows, 5);
    const auto range = range_of(series, 0);
    const Image first = draw_frame(series, {{0, range}}, 0);
    const Image last = draw_frame(series, {{0, range}}, 3);
    EXPECT_EQ(first.width() % 2, 0);
    EXPECT_EQ(first.height() % 2, 0);
    EXPECT_EQ(first.width(), last.width());
    EXPECT_EQ(first.height(), last.height());
    EXPECT_FALSE(first.pixels() == last.pixels());
  }
}

TEST(ReportAnimation, NothingTouchesTheMargin) {
  auto series = example(12, 16, 16);
  series.truth *= -1e-7;
  series.prediction *= -1e-7;
  series.cases[0] = std::string(100, 'W') + std::string(20, '\xb0');
  const Image image = draw_frame(series, {{0, range_of(series, 0)}}, 11);
  for (int64_t y = 0; y < image.height(); ++y) {
    for (int64_t x = 0; x < image.width(); ++x) {
      const bool margin = x < 20 || y < 20 || x >= image.width() - 20 ||
                          y >= image.height() - 20;
      if (margin) {
        ASSERT_EQ(hex(image.at(x, y)), "#ffffff") << x << " " << y;
      }
    }
  }
}

TEST(ReportAnimation, VideoHasEveryFrame) {
  const auto ffprobe = find_program("ffprobe");
  if (find_program("ffmpeg").empty() || ffprobe.empty()) {
    GTEST_SKIP() << "no ffmpeg";
  }
  const TemporaryFolder folder;
  for (const int64_t frames : {1, 9, 230}) {
    const auto series = example(frames);
    const Image image = draw_frame(series, {{0, range_of(series, 0)}}, 0);
    const auto video = write_animation(series, {0}, folder / "a.video");
    if (video.extension() != ".mp4") GTEST_SKIP() << "an ffmpeg without H.264";
    EXPECT_EQ(video, folder / "a.video.mp4");
    Process probe(ffprobe,
                  {"-loglevel", "error", "-count_frames", "-show_entries",
                   "stream=width,height,pix_fmt,nb_read_frames", "-of",
                   "csv=p=0", video.string()});
    EXPECT_EQ(probe.wait().output,
              fmt::format("{},{},yuv420p,{}\n", image.width(), image.height(),
                          std::min<int64_t>(frames, 200)));
  }
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), {}), 1);
}

TEST(ReportAnimation, WithoutFfmpegItIsAnAnimatedPicture) {
  const TemporaryFolder folder;
  fs::create_directories(folder / "empty");
  const testing::OnlyPath path(folder / "empty");
  const auto file = write_animation(example(70), {1}, folder / "b");
  if (!has_png()) {
    EXPECT_EQ(file, "");
    return;
  }
  EXPECT_EQ(file, folder / "b.png");
  const std::string bytes = read_file(file);
  const size_t control = bytes.find("acTL");
  ASSERT_NE(control, std::string::npos);
  EXPECT_EQ(bytes.substr(control + 4, 4), std::string("\0\0\0\x3c", 4));  // 60
}

TEST(ReportAnimation, FailingFfmpegLeavesNothing) {
  const TemporaryFolder folder;
  write_file_atomically(folder / "bin" / "ffmpeg",
                        "#!/bin/sh\nfor file; do :; done\n"
                        "echo half > \"$file\"; echo no encoder; exit 1\n");
  fs::permissions(folder / "bin" / "ffmpeg", fs::perms::owner_all);
  const testing::OnlyPath path(folder / "bin");
  const auto file = write_animation(example(5), {0}, folder / "videos" / "c");
  if (has_png()) {
    EXPECT_EQ(file, folder / "videos" / "c.png");
  } else {
    EXPECT_EQ(file, "");
  }
  EXPECT_EQ(std::distance(fs::directory_iterator(folder / "videos"), {}),
            has_png() ? 1 : 0);
}

}  // namespace
}  // namespace propagator::report
