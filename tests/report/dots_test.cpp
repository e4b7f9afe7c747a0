#include <cmath>

#include "propagator/core/files.h"
#include "propagator/report/gnuplot.h"
#include "propagator/report/gnuplot_script.h"
#include "testing.h"

// Points over heat maps.

namespace propagator::report {
namespace {

using propagator::testing::TemporaryFolder;

const double kNone = std::nan("");

HeatMaps map_with(const Dots& dots, bool with_cells = true) {
  const auto cells = torch::arange(4, torch::kFloat64).view({2, 2});
  Panel panel{.values = with_cells ? cells : cells * kNone, .dots = dots};
  panel.cross = {0.5, 0.25};
  return {.x = {"x", 0, 1}, .y = {"y", 1, 0}, .rows = {{.panels = {panel}}}};
}

// How many points of a kind a picture has: 2 is a cross, 6 a ring, 7 a disc in
// gnuplot's scripts, one less in its pictures.
int64_t points_in(const std::string& svg, int kind) {
  const auto mark = fmt::format("'#gpPt{}' transform='translate(", kind - 1);
  int64_t count = 0;
  for (size_t at = 0; (at = svg.find(mark, at)) != std::string::npos; ++at) {
    ++count;
  }
  return count;
}

TEST(ReportDots, AreDrawnAtTheirPlacesWithAndWithoutValues) {
  if (!FigureFolder::can_draw()) GTEST_SKIP() << "no gnuplot here";
  const TemporaryFolder folder;
  FigureFolder figures(folder / "figures");
  const std::tuple<const char*, HeatMaps, int64_t, int64_t> cases[] = {
      {"none", map_with({}), 0, 0},
      // A rim and what is inside it.
      {"plain", map_with({{0.1, 0.9}, {0.2, 0.3}}), 4, 0},
      {"coloured", map_with({{0.1, 0.9}, {0.2, 0.3}, {1, 2}}), 2, 0},
      {"some", map_with({{0.1, 0.9}, {0.2, 0.3}, {1, kNone}}, false), 1, 1},
      {"rings", map_with({{0.1, 0.9}, {0.2, 0.3}, {kNone, kNone}}, false), 0,
       2},
  };
  for (const auto& [name, maps, discs, rings] : cases) figures.add(name, maps);
  figures.draw();
  for (const auto& [name, maps, discs, rings] : cases) {
    const auto svg = read_file(figures.path() / (std::string(name) + ".svg"));
    EXPECT_EQ(points_in(svg, 7), discs) << name;
    EXPECT_EQ(points_in(svg, 6), rings) << name;
    EXPECT_EQ(points_in(svg, 2), 1) << name;  // the cross
  }
}

TEST(ReportDots, TheLargestValueIsDrawnLast) {
  const auto script = write_script(
      map_with({{1, 2, 3, 4}, {5, 6, 7, 8}, {0.3, 0.9, kNone, 0.1}}));
  const auto& text = script.files[0].text;
  EXPECT_NE(text.find("4\t8\t0.1\n1\t5\t0.3\n2\t6\t0.9\n"), std::string::npos)
      << text;
  EXPECT_NE(text.find("3\t7\tNaN\n"), std::string::npos) << text;
}

TEST(ReportDots, DecideOfTheScaleToo) {
  auto maps = map_with({{0.1, 0.9}, {0.2, 0.3}, {-2, 7}});
  EXPECT_EQ(limits(maps.rows[0]), std::pair(-2.0, 7.0));
  auto row = map_with({{0.1, 0.9}, {0.2, 0.3}, {1e-4, 0}}, false).rows[0];
  row.log = true;
  const auto [low, high] = limits(row);
  EXPECT_DOUBLE_EQ(low, 1e-6);  // a decade below a tenth of the rms
  EXPECT_DOUBLE_EQ(high, 1e-4);
}

}  // namespace
}  // namespace propagator::report
