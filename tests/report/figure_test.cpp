#include "propagator/report/figure.h"

#include <cstdlib>
#include <limits>

#include "propagator/core/error.h"
#include "propagator/report/gnuplot.h"
#include "propagator/report/gnuplot_script.h"
#include "testing.h"

namespace propagator::report {
namespace {

using propagator::testing::OnlyPath;
using propagator::testing::TemporaryFolder;
using propagator::testing::thrown;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

LinePlot line_plot() {
  return {.title = "A_title {with} 'marks'",
          .x = {.label = "step"},
          .y = {.label = "loss", .log = true},
          .series = {{"one & two", {1, 2, 3}, {1e-1, 1e-3, 0}},
                     {"points", {1, 3}, {0.5, kNaN}, Series::Style::kPoints}},
          .events = {{2, "rate 0.1"}, {2.01, "rate 0.01"}, {99, "outside"}}};
}

HeatMaps heat_maps() {
  const auto values = torch::arange(12, torch::kFloat64).view({3, 4}).clone();
  values[1][2] = kNaN;
  return {.title = "Maps",
          .x = {"x (m)", 0, 1},
          .y = {"y (m)", 1, 0},
          .rows = {{.label = "row",
                    .bar_label = "temperature (K)",
                    .panels = {{"first", values, {{0, 0}, {1, 1}}},
                               {"second", 2 * values}}}}};
}

// Width and height of a PNG file.
std::pair<int, int> png_size(const fs::path& path) {
  const auto bytes = read_file(path);
  const auto number = [&](size_t at) {
    int value = 0;
    for (size_t n = 0; n < 4; ++n) {
      value = value << 8 | static_cast<unsigned char>(bytes[at + n]);
    }
    return value;
  };
  return {number(16), number(20)};
}

BarChart bar_chart(size_t count, const std::string& name, double value = 1) {
  return {.categories = std::vector<std::string>(count, name),
          .bars = {{"ours", std::vector<double>(count, value)},
                   {"theirs", std::vector<double>(count, 2)}}};
}

TEST(ReportBarChart, WordsThatDoNotFitAreSlantedAndSuchNumbersLeftOut) {
  const auto has = [](const BarChart& chart, const char* words) {
    return write_script(chart).body.find(words) != std::string::npos;
  };
  const auto few = bar_chart(3, "a"),
             long_names = bar_chart(6, "a-name-of-some-length"),
             many = bar_chart(21, "a"),
             long_numbers = bar_chart(21, "a", 0.0092);
  EXPECT_FALSE(has(few, "rotate"));
  EXPECT_TRUE(has(long_names, "rotate"));
  EXPECT_FALSE(has(many, "rotate"));
  EXPECT_TRUE(has(few, "with labels"));
  EXPECT_TRUE(has(long_names, "with labels"));
  EXPECT_TRUE(has(bar_chart(8, "a", 0.0092), "with labels"));
  EXPECT_TRUE(has(many, "with labels"));
  EXPECT_FALSE(has(long_numbers, "with labels"));
}

class ReportFigure : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!FigureFolder::can_draw()) GTEST_SKIP() << "no gnuplot here";
  }
  TemporaryFolder folder;
};

TEST_F(ReportFigure, EveryKindIsDrawnAndKeepsDataAndScript) {
  FigureFolder figures(folder / "figures");
  const double width = figures.add("lines", line_plot());
  figures.add("maps", heat_maps());
  BarChart bars;
  bars.y = {.label = "MSE", .log = true};
  bars.categories = {"a_b", "c"};
  bars.bars = {{"x", {1e-5, 2e-3}}, {"y", {1, 2}}};
  figures.add("bars", bars);
  Scene scene{.title = "Event",
              .value_label = "time (ns)",
              .points = torch::eye(3, torch::kFloat64),
              .values = torch::tensor({1.0, 2.5, kNaN}, torch::kFloat64),
              .known_name = "hit",
              .unknown_name = "not hit"};
  scene.lines = {torch::eye(3, torch::kFloat64).slice(0, 0, 2)};
  scene.marks = {{"truth", torch::zeros({3}, torch::kFloat64)}};
  figures.add("scene", scene);
  figures.draw();
  for (const char* name : {"lines", "maps", "bars", "scene"}) {
    for (const char* ending : {".dat", ".gp", ".png", ".svg"}) {
      const auto file = figures.path() / (std::string(name) + ending);
      EXPECT_TRUE(fs::exists(file) && fs::file_size(file) > 50) << file;
    }
  }
  EXPECT_EQ(png_size(figures.path() / "lines.png").first, 2 * width);
  const auto svg = read_file(figures.path() / "lines.svg");
  for (const char* text : {"A_title {with} 'marks'", "one &amp; two", "loss",
                           "step", "rate 0.1", "rate 0.01"}) {
    EXPECT_NE(svg.find(text), std::string::npos) << text;
  }
  EXPECT_EQ(svg.find("outside"), std::string::npos);
}

TEST_F(ReportFigure, AUserCanDrawItAgain) {
  FigureFolder figures(folder / "figures");
  figures.add("lines", line_plot());
  const auto command =
      "cd '" + figures.path().string() + "' && gnuplot lines.gp";
  EXPECT_EQ(std::system(command.c_str()), 0);
  EXPECT_TRUE(fs::exists(figures.path() / "lines.png"));
}

TEST_F(ReportFigure, ARefusedScriptIsAnErrorThatNamesIt) {
  FigureFolder figures(folder / "figures");
  figures.add("lines", line_plot());
  write_file_atomically(figures.path() / "lines.gp", "plot nonsense nonsense");
  const auto message = thrown<RuntimeError>([&] { figures.draw(); });
  EXPECT_NE(message.find("lines.gp"), std::string::npos) << message;
}

TEST_F(ReportFigure, WithoutGnuplotTheDataStayAndOldPicturesGo) {
  FigureFolder figures(folder / "figures");
  figures.add("lines", line_plot());
  figures.draw();
  ASSERT_TRUE(fs::exists(figures.path() / "lines.png"));
  const OnlyPath no_programs;
  figures.add("lines", line_plot());
  figures.draw();
  EXPECT_FALSE(fs::exists(figures.path() / "lines.png"));
  EXPECT_TRUE(fs::exists(figures.path() / "lines.dat"));
}

TEST(ReportFigureScript, ASceneTellsPointsWithoutAValueApart) {
  const auto script = write_script(
      Scene{.points = torch::tensor({{1.0, 2.0, 3.0}, {4.0, 5.0, 6.0}}),
            .values = torch::tensor({7.5, kNaN})});
  const auto& text = script.files[0].text;
  EXPECT_NE(text.find("\n1\t2\t3\t7.5\n"), std::string::npos) << text;
  EXPECT_NE(text.find("\n4\t5\t6\n"), std::string::npos) << text;
}

TEST(ReportFigureScript, DataHoldTheNumbersWithGapsWhereALogHasNone) {
  const auto script = write_script(line_plot());
  EXPECT_NE(script.files[0].text.find("1\t0.1\n2\t0.001\n3\tNaN\n"),
            std::string::npos)
      << script.files[0].text;
  const auto maps = write_script(heat_maps());
  EXPECT_NE(maps.files[0].text.find("0\t1\t2\t3\n4\t5\tNaN\t7\n"),
            std::string::npos)
      << maps.files[0].text;
}

TEST(ReportFigureScript, TicksAreRoundNumbers) {
  EXPECT_DOUBLE_EQ(tick_step(1, 5), 0.2);
  EXPECT_DOUBLE_EQ(tick_step(0.084, 4), 0.05);
  EXPECT_DOUBLE_EQ(tick_step(-30, 3), 10);
}

TEST(ReportFigureScript, LimitsFollowTheValuesAndNeverCollapse) {
  const auto row = [](const torch::Tensor& values, Scale scale) {
    return limits({.scale = scale, .panels = {{"", values}}});
  };
  const auto values = torch::tensor({{-1.0, kNaN}, {3.0, 2.0}});
  EXPECT_EQ(row(values, Scale::kSequential), std::pair(-1.0, 3.0));
  EXPECT_EQ(row(values, Scale::kDiverging), std::pair(-3.0, 3.0));
  const auto [low, high] = row(torch::ones({2, 2}), Scale::kSequential);
  EXPECT_LT(low, high);
  const auto nothing = row(torch::full({2, 2}, kNaN), Scale::kSequential);
  EXPECT_LT(nothing.first, nothing.second);
}

}  // namespace
}  // namespace propagator::report
