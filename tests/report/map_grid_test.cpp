#include "propagator/report/map_grid.h"

#include <cmath>

#include "propagator/core/files.h"
#include "propagator/report/dark_svg.h"
#include "propagator/report/legend.h"
#include "propagator/report/png.h"
#include "propagator/report/report.h"
#include "testing.h"

// What a page makes of figures: grids of maps, legends, dark pictures, columns.

namespace propagator::report {
namespace {

using propagator::testing::from_base64;
using propagator::testing::TemporaryFolder;

int64_t count(const std::string& text, const std::string& part) {
  int64_t found = 0;
  for (auto at = text.find(part); at != std::string::npos;
       at = text.find(part, at + 1)) {
    ++found;
  }
  return found;
}

HeatMaps two_rows() {
  const auto values = torch::arange(12, torch::kFloat64).view({3, 4});
  return {.x = {"x (m)", 0, 3},
          .y = {"y (m)", 2, 0},
          .rows = {{.label = "truth",
                    .bar_label = "u",
                    .panels = {{"frame 1", values}, {"frame 2", 2 * values}}},
                   {.label = "difference",
                    .scale = Scale::kDiverging,
                    .panels = {{"frame 1", -values}, {}}}}};
}

TEST(ReportMapGrid, HasAPictureAPanelAndABarARow) {
  if (!has_png()) GTEST_SKIP() << "no libpng here";
  const auto html = map_grid(two_rows());
  EXPECT_EQ(count(html, "data:image/png;base64,"), 3);
  EXPECT_EQ(count(html, "class=\"map none\""), 1);
  EXPECT_EQ(count(html, "class=\"map-bar\""), 2);
  EXPECT_EQ(count(html, "class=\"diverging\""), 1);
  // Cells have their middles on the axis: 1 is at 1.5 of 4 cells.
  EXPECT_NE(html.find("--at:37.50%\">1</span>"), std::string::npos) << html;
  // y rises upwards: 2 is in the middle of the first of 3 rows.
  EXPECT_NE(html.find("--at:16.67%\">2</span>"), std::string::npos) << html;
}

TEST(ReportMapGrid, PicturesHaveOnePixelACell) {
  if (!has_png()) GTEST_SKIP() << "no libpng here";
  const auto html = map_grid(two_rows());
  const std::string begin = "data:image/png;base64,";
  const auto at = html.find(begin) + begin.size();
  const auto png = from_base64(html.substr(at, html.find('"', at) - at));
  Image expected(4, 3);
  expected.field(0, 0, 1, two_rows().rows[0].panels[0].values,
                 Scale::kSequential, 0, 22);
  EXPECT_EQ(png, png_of(expected));
}

TEST(ReportMapGrid, WhatIsDrawnOverAMapLiesAtItsPlace) {
  if (!has_png()) GTEST_SKIP() << "no libpng here";
  auto maps = two_rows();
  auto& panel = maps.rows[0].panels[0];
  panel.dots = {{0, 3}, {2, 0}, {}};
  panel.rulers = {1.5};
  panel.outline = {{0, 0}, {1, 1}};
  panel.cross = std::pair(1.5, 1.0);
  const auto html = map_grid(maps);
  EXPECT_NE(html.find("M125.0 166.7h0M875.0 833.3h0"), std::string::npos);
  EXPECT_NE(html.find("M500.0 0V1000"), std::string::npos);
  EXPECT_NE(html.find("M125.0 833.3L375.0 500.0"), std::string::npos);
  EXPECT_NE(html.find("M480.0 480.0l40 40m0 -40l-40 40"), std::string::npos);
}

TEST(ReportMapGrid, TextIsNeverMarkup) {
  if (!has_png()) GTEST_SKIP() << "no libpng here";
  const std::string evil = "\"><script>alert(1)</script>";
  auto maps = two_rows();
  maps.x.label = maps.y.label = evil;
  for (auto& row : maps.rows) {
    row.label = row.bar_label = evil;
    for (auto& panel : row.panels) panel.title = evil;
  }
  const auto html = map_grid(maps);
  EXPECT_EQ(html.find("<script"), std::string::npos);
  EXPECT_EQ(count(html, "&lt;script&gt;"), count(html, "&lt;/script&gt;"));
  EXPECT_GT(count(html, "&quot;&gt;&lt;script"), 8);
}

// Whatever values there are, a grid is made: NaN, one value, none, too many.
TEST(ReportMapGrid, StrangeValuesDoNoHarm) {
  if (!has_png()) GTEST_SKIP() << "no libpng here";
  for (const auto& values :
       {torch::full({2, 2}, std::nan("")), torch::zeros({3, 3}),
        torch::full({1, 1}, HUGE_VAL),
        torch::full({2, 3}, 1e300, torch::kFloat64), torch::rand({1000, 2})}) {
    for (const bool log : {false, true}) {
      const HeatMaps maps{.rows = {{.panels = {{"", values}}, .log = log}}};
      EXPECT_EQ(count(map_grid(maps), "data:image/png"), 1);
    }
  }
}

TEST(ReportPage, FiguresStandInColumnsAndTheLeadComesFirst) {
  const TemporaryFolder folder;
  Report report(folder.path(), "report.html", "page", "");
  report.section("Result");
  report.headline("It is off by <2 %.");
  report.tiles({{"nRMSE", "0.02"}});
  report.lead_place();
  report.text("Then the table.");
  report.section("Test");
  const LinePlot plot{.series = {{"a", {0, 1}, {1, 2}}}};
  report.figure("first", plot, "The first figure.");
  report.figure("second", plot, "The second figure.");
  report.lead("telling", two_rows(), "The lead.");
  report.lead("other", two_rows(), "Another lead.");
  Table table({"model", "error"});
  table.row({"ours", "1"});
  report.table(table);
  const auto page = read_file(report.write());
  const auto at = [&](const char* text) { return page.find(text); };
  EXPECT_LT(at("It is off by &lt;2 %."), at("The lead."));
  EXPECT_LT(at("<dd>0.02</dd>"), at("The lead."));
  EXPECT_LT(at("The lead."), at("Then the table."));
  EXPECT_LT(at("Then the table."), at("The first figure."));
  EXPECT_LT(at("The second figure."), at("Another lead."));
  EXPECT_EQ(count(page, "<div class=\"figures\">"), 2);
  EXPECT_EQ(count(page, "<div class=\"scroll\""), 1);
  EXPECT_NE(at("prefers-color-scheme: dark"), std::string::npos);
}

TEST(ReportDarkSvg, HasAStyleForADarkPageAndNoGround) {
  const auto svg = with_dark_style(
      "<?xml?>\n<svg viewBox=\"0 0 1 1\">\n<g id=\"gnuplot_canvas\"/></svg>");
  const auto style = svg.find("<style>");
  EXPECT_LT(svg.find("viewBox"), style);
  EXPECT_LT(style, svg.find("gnuplot_canvas\"/>"));
  for (const char* rule :
       {"#gnuplot_canvas > rect{fill:none}", "prefers-color-scheme: dark",
        "[stroke=\"rgb(  0, 114, 178)\"]", "[fill=\"rgb(34,34,34)\"]"}) {
    EXPECT_NE(svg.find(rule), std::string::npos) << rule;
  }
  EXPECT_EQ(with_dark_style("no picture"), "no picture");
}

LinePlot plot_of(std::vector<double> y) {
  LinePlot plot{.x = {.first = 0, .last = 1}, .y = {.first = 0, .last = 1}};
  Series series{.name = "ours", .y = std::move(y)};
  for (size_t n = 0; n < series.y.size(); ++n) {
    series.x.push_back(static_cast<double>(n) /
                       static_cast<double>(series.y.size() - 1));
  }
  plot.series = {series};
  return plot;
}

TEST(ReportLegend, StandsInTheCornerThatCurvesLeaveFree) {
  EXPECT_EQ(place_legend(plot_of({1, 0}), true).place, "inside top right");
  EXPECT_EQ(place_legend(plot_of({0, 1}), true).place, "inside top left");
  EXPECT_EQ(place_legend(plot_of({1, 1}), true).place, "inside bottom right");
  EXPECT_EQ(place_legend(plot_of({1, 0}), true).y_last, 1);
}

TEST(ReportLegend, HasRoomMadeForItWhereThereIsNone) {
  std::vector<double> zigzag;
  for (int n = 0; n < 81; ++n) zigzag.push_back(n % 2);
  const auto made = place_legend(plot_of(zigzag), true);
  EXPECT_EQ(made.place, "inside top right");
  // Above the curve there is as much as an entry needs, some 26 of 245 pixels.
  EXPECT_GT(made.y_last, 1.08);
  EXPECT_LT(made.y_last, 1.2);
  EXPECT_EQ(place_legend(plot_of(zigzag), false).y_last, 1);
}

}  // namespace
}  // namespace propagator::report
