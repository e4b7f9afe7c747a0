#include <torch/utils.h>

#include "propagator/report/animation.h"
#include "propagator/report/report.h"
#include "report/page_reading.h"

// Where a field was read, in animation and explorer.

namespace propagator::report {
namespace {

using propagator::testing::explored;
using propagator::testing::TemporaryFolder;

// u is read at three places and times, p never; 3 frames of 4 x 6 nodes.
FieldSeries read_fields() {
  FieldSeries series{.time_label = "t",
                     .times = {0, 1, 2},
                     .cases = {"u", "p"},
                     .x = {"x", 0, 5},
                     .y = {"y", 3, 0}};
  series.truth = propagator::testing::random({2, 3, 4, 6}, "truth");
  series.prediction = series.truth + 0.1;
  series.sensors = {{{1, 2, 4}, {3, 0, 1.5}, {0.1, 1.9, 2.1}}, {}};
  return series;
}

// "column,row" of each sensor of each frame.
std::vector<std::vector<std::string>> places(const FieldSeries& series,
                                             int64_t index) {
  std::vector<std::vector<std::string>> all;
  for (const auto& frame : series.sensors_near(index)) {
    all.emplace_back();
    for (const auto& [column, row] : frame) {
      all.back().push_back(fmt::format("{:g},{:g}", column + 0.0, row + 0.0));
    }
  }
  return all;
}

using Places = std::vector<std::vector<std::string>>;

TEST(ReportSensors, BelongToTheNearestFrameAndHaveTheirPlaceInNodes) {
  EXPECT_EQ(places(read_fields(), 0), (Places{{"1,0"}, {}, {"2,3", "4,1.5"}}));
  EXPECT_EQ(places(read_fields(), 1), (Places{{}, {}, {}}));
}

TEST(ReportSensors, ThoseFarFromEveryFrameOrOutsideThePictureAreLeftOut) {
  auto series = read_fields();
  // Frames at 0, 1 and 3: half a step is 0.5 before the first, 1 after the
  // last, and the middle between the others.
  series.times = {0, 1, 3};
  const std::vector<double> times{-0.6, -0.4, 0.4, 0.6, 1.9, 2.1, 3.9, 4.1};
  auto& read = series.sensors[0];
  read = {{}, {}, times};
  for (size_t k = 0; k < times.size(); ++k) {
    read.x.push_back(0.5 * static_cast<double>(k));
    read.y.push_back(0);
  }
  EXPECT_EQ(places(series, 0),
            (Places{{"0.5,3", "1,3"}, {"1.5,3", "2,3"}, {"2.5,3", "3,3"}}));
  // A node has half a cell on either side of it.
  read = {{-0.4, -0.6, 5.4, 5.6, 1, 1},
          {0, 0, 0, 0, 3.6, -0.4},
          std::vector<double>(6, 1.0)};
  EXPECT_EQ(places(series, 0), (Places{{}, {"-0.4,3", "5.4,3", "1,3.4"}, {}}));
}

TEST(ReportSensors, OneFrameHasAllOfThemAndManyAreThinned) {
  auto series = read_fields();
  series.times = {0};
  EXPECT_EQ(places(series, 0).at(0).size(), 3u);
  const size_t most = FieldSeries::kMostSensors;
  series.sensors[0] = {
      std::vector<double>(3 * most), {}, std::vector<double>(3 * most, 7.0)};
  for (size_t k = 0; k < 3 * most; ++k) {
    series.sensors[0].y.push_back(k < 3 ? 3 : 0);
  }
  const auto some = places(series, 0).at(0);
  ASSERT_EQ(some.size(), most);
  EXPECT_EQ(std::ranges::count(some, "0,0"), 1);  // one of the first three
  series.sensors = {};
  EXPECT_EQ(places(series, 0), (Places{{}}));
}

// Pixels in which two images differ.
std::vector<std::pair<int64_t, int64_t>> differing(const Image& a,
                                                   const Image& b) {
  std::vector<std::pair<int64_t, int64_t>> all;
  EXPECT_EQ(a.width(), b.width());
  for (int64_t y = 0; y < a.height(); ++y) {
    for (int64_t x = 0; x < a.width(); ++x) {
      if (a.at(x, y) != b.at(x, y)) all.emplace_back(x, y);
    }
  }
  return all;
}

TEST(ReportSensors, AreRingsInTheAnimation) {
  const auto with = read_fields();
  auto without = with;
  without.sensors = {};
  const auto drawn = [](const FieldSeries& series, int64_t frame) {
    return draw_frame(
        series, {{0, range_of(series, 0)}, {1, range_of(series, 1)}}, frame);
  };
  // No reading is near the second frame.
  EXPECT_TRUE(differing(drawn(with, 1), drawn(without, 1)).empty());
  // One in the first: a ring over the truth, one over the error, both of u.
  const auto image = drawn(with, 0);
  const auto rings = differing(image, drawn(without, 0));
  ASSERT_FALSE(rings.empty());
  EXPECT_EQ(rings.size() % 2, 0u);
  const int64_t cell = 260 / 6;
  int64_t left = image.width(), right = 0, top = image.height(), bottom = 0;
  for (const auto& [x, y] : rings) {
    if (x < image.width() / 3) {
      left = std::min(left, x), right = std::max(right, x);
    }
    top = std::min(top, y), bottom = std::max(bottom, y);
  }
  EXPECT_LE(right - left, 8);
  EXPECT_LE(bottom - top, 8);
  // Node (1, 0) of the left field, whose left edge is behind the margin of 24.
  EXPECT_NEAR(static_cast<double>(left + right) / 2,
              24 + 1.5 * static_cast<double>(cell), 1);
  // Its middle stays to be seen.
  EXPECT_EQ(std::ranges::count(
                rings, std::pair((left + right) / 2, (top + bottom) / 2)),
            0);
  // Without a truth they are over the prediction.
  auto alone = with, plain = without;
  alone.truth = plain.truth = torch::Tensor();
  EXPECT_EQ(differing(drawn(alone, 0), drawn(plain, 0)).size(),
            rings.size() / 2);
}

TEST(ReportSensors, GoIntoTheExplorerAsNumbers) {
  const TemporaryFolder folder;
  Report report(folder.path(), "report.html", "sensors", "");
  report.section("Fields");
  report.explorer(read_fields());
  const auto data = explored(read_file(report.write()));
  EXPECT_EQ(data.at("cases")[0].at("sensors"),
            nlohmann::json::parse("[[1,0],[],[2,3,4,1.5]]"));
  EXPECT_EQ(data.at("cases")[1].at("sensors"),
            nlohmann::json::parse("[[],[],[]]"));
}

TEST(ReportSensors, ChromiumShowsAndHidesThem) {
  const auto chromium = find_program("chromium");
  if (chromium.empty()) GTEST_SKIP() << "no chromium here";
  const TemporaryFolder folder;
  Report report(folder.path(), "report.html", "sensors", "");
  report.section("Fields");
  report.explorer(read_fields());
  report.write();
  const auto said =
      propagator::testing::title_in_browser(chromium, folder.path(),
                                            R"(<script>
    const box = document.querySelector('.explorer[data-kind=fields]');
    const slider = box.querySelector('input.time');
    const check = box.querySelector('input.sensors');
    const chooser = box.querySelector('select.case');
    const counts = () => [...box.querySelectorAll('.rings')].map(
        rings => rings.children.length);
    const move = time => {
      slider.value = time;
      slider.dispatchEvent(new Event('input'));
    };
    const seen = {first: counts(), words: check.parentNode.textContent};
    move(2);
    seen.last = counts();
    seen.words_last = check.parentNode.textContent;
    const field = box.querySelector('canvas.truth').getBoundingClientRect();
    const ring = box.querySelectorAll('.rings span')[1].getBoundingClientRect();
    seen.across = (ring.left + ring.width / 2 - field.left) / field.width * 6;
    seen.down = (ring.top + ring.height / 2 - field.top) / field.height * 4;
    check.click();
    seen.hidden = counts();
    move(0);
    seen.still_hidden = counts();
    check.click();
    seen.again = counts();
    chooser.selectedIndex = 1;
    chooser.dispatchEvent(new Event('change'));
    seen.never_read = counts();
    seen.broken = !box.querySelector('p.missing').hidden;
    document.title = JSON.stringify(seen);
  </script>)");
  ASSERT_TRUE(said.is_object()) << said;
  using nlohmann::json;
  EXPECT_FALSE(said.at("broken").get<bool>());
  // It begins in the middle. Truth, prediction, error.
  EXPECT_EQ(said.at("first"), json({0, 0, 0}));
  EXPECT_EQ(said.at("words"), " sensors (0)");
  EXPECT_EQ(said.at("last"), json({2, 0, 2}));
  EXPECT_EQ(said.at("words_last"), " sensors (2)");
  EXPECT_NEAR(said.at("across").get<double>(), 4.5, 0.1);
  EXPECT_NEAR(said.at("down").get<double>(), 2, 0.1);
  EXPECT_EQ(said.at("hidden"), json({0, 0, 0}));
  EXPECT_EQ(said.at("still_hidden"), json({0, 0, 0}));
  EXPECT_EQ(said.at("again"), json({1, 0, 1}));
  EXPECT_EQ(said.at("never_read"), json({0, 0, 0}));
}

}  // namespace
}  // namespace propagator::report
