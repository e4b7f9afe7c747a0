#include <cmath>

#include "propagator/core/files.h"
#include "propagator/report/gnuplot.h"
#include "propagator/report/gnuplot_script.h"
#include "testing.h"

// What is filled between two curves.

namespace propagator::report {
namespace {

using propagator::testing::TemporaryFolder;

LinePlot with_bands(const std::vector<Band>& bands) {
  return {.x = {.label = "x"},
          .y = {.label = "u"},
          .series = {{"solution", {0, 1, 2}, {1, 2, 1}},
                     {"exact", {0, 1, 2}, {1, 2, 1}, Series::Style::kDashed},
                     {"readings", {}, {}, Series::Style::kPoints}},
          .bands = bands};
}

TEST(ReportBand, IsBelowTheSeriesAndKeepsItsNumbers) {
  const auto script =
      write_script(with_bands({{"95 %", {0, 1, 2}, {0, 1, 0}, {2, 3, 2}},
                               {"", {0, 1}, {0.5, 1.5}, {1.5, 2.5}}}));
  const auto& text = script.files[0].text;
  EXPECT_NE(text.find("0\t0\t2\n1\t1\t3\n2\t0\t2\n"), std::string::npos)
      << text;
  EXPECT_NE(text.find("0\t0.5\t1.5\n1\t1.5\t2.5\n"), std::string::npos) << text;
  const auto& body = script.body;
  const auto first = body.find("plot data index 0 using 1:2:3 with filled");
  const auto second = body.find("data index 1 using 1:2:3 with filled");
  const auto line = body.find("data index 2 using 1:2 with lines");
  EXPECT_LT(first, second) << body;
  EXPECT_LT(second, line) << body;
  EXPECT_NE(line, std::string::npos) << body;
  // In the colour of the solution's line, which does not change for it.
  const auto colour = hex(series_colour(0));
  EXPECT_NE(body.find(colour, first), std::string::npos);
  EXPECT_NE(body.find(colour, line), std::string::npos);
}

TEST(ReportBand, ReachesAsFarAsTheAxis) {
  const auto script = write_script(with_bands({{"", {-1, 4}, {0, 0}, {1, 1}}}));
  EXPECT_NE(script.body.find("set xrange [-1:4]"), std::string::npos)
      << script.body;
}

TEST(ReportBand, HasNoPointWhereALogarithmHasNone) {
  auto plot = with_bands({{"", {0, 1}, {-1, 0.5}, {1, 2}}});
  plot.y.log = true;
  const auto& text = write_script(plot).files[0].text;
  EXPECT_NE(text.find("0\tNaN\t1\n1\t0.5\t2\n"), std::string::npos) << text;
}

// Whatever is empty or not finite, the rest is drawn.
TEST(ReportBand, IsDrawnFilledAndAnEmptyOneDoesNoHarm) {
  if (!FigureFolder::can_draw()) GTEST_SKIP() << "no gnuplot here";
  const double none = std::nan(""), inf = HUGE_VAL;
  const TemporaryFolder folder;
  const auto marker = folder / "marker";
  const auto hostile = "'; system('touch " + marker.string() + "') #`touch " +
                       marker.string() + "`";
  const std::pair<const char*, std::vector<Band>> cases[] = {
      {"none", {}},
      {"whole", {{"95 %", {0, 1, 2}, {0, 1, 0}, {2, 3, 2}}}},
      {"empty", {{"95 %", {}, {}, {}}}},
      {"nan", {{"95 %", {0, 1, 2}, {none, none, none}, {none, none, none}}}},
      {"infinite", {{"95 %", {0, 1, 2}, {-inf, 1, 0}, {inf, 3, 2}}}},
      {"one", {{"95 %", {1}, {0}, {2}}}},
      {"hostile", {{hostile, {0, 1, 2}, {0, 1, 0}, {2, 3, 2}}}},
  };
  FigureFolder figures(folder / "figures");
  for (const auto& [name, bands] : cases) figures.add(name, with_bands(bands));
  figures.draw();
  const auto filled = [&](const char* name) {
    const auto svg = read_file(figures.path() / (std::string(name) + ".svg"));
    return svg.find("fill-opacity") != std::string::npos;
  };
  EXPECT_FALSE(filled("none"));
  EXPECT_TRUE(filled("whole"));
  EXPECT_TRUE(filled("hostile"));
  for (const auto& [name, bands] : cases) {
    const auto svg = read_file(figures.path() / (std::string(name) + ".svg"));
    EXPECT_NE(svg.find("solution"), std::string::npos) << name;
  }
  EXPECT_FALSE(fs::exists(marker));
}

}  // namespace
}  // namespace propagator::report
