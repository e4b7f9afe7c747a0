#include "propagator/report/figure.h"

#include <algorithm>
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

// Points along the axes, an outline, and two marks at places of their own.
Scene small_scene(const std::vector<double>& values) {
  const auto count = static_cast<int64_t>(values.size());
  Scene scene{.title = "Event",
              .value_label = "time (ns)",
              .points = torch::eye(3, torch::kFloat64).slice(0, 0, count),
              .values = torch::tensor(values, torch::kFloat64),
              .known_name = "hit",
              .unknown_name = "not hit"};
  scene.lines = {torch::eye(3, torch::kFloat64).slice(0, 0, 2)};
  scene.marks = {{"event", torch::full({3}, 0.2, torch::kFloat64)},
                 {"located", torch::full({3}, 0.7, torch::kFloat64)}};
  return scene;
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
  figures.add("scene", small_scene({1.0, 2.5, kNaN}));
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

// What gnuplot would take for a command, a string, markup or a format.
std::string hostile(const fs::path& marker) {
  const auto touch = "touch " + marker.string();
  return "'`" + touch + "`''\\ \n`" + touch +
         "`\n@name {x^{ _~&%s%n 5% \r\t\x1b\x7f" + std::string(1, '\0') +
         "<script>\nsystem('" + touch + "')\n";
}

TEST_F(ReportFigure, TextIsNeverACommand) {
  const auto marker = folder / "marker";
  const auto text = hostile(marker);
  auto lines = line_plot();
  lines.title = lines.x.label = lines.y.label = text;
  for (auto& series : lines.series) series.name = text;
  for (auto& event : lines.events) event.label = text;
  auto maps = heat_maps();
  maps.title = maps.x.label = maps.y.label = text;
  maps.rows[0].label = maps.rows[0].bar_label = text;
  for (auto& panel : maps.rows[0].panels) panel.title = text;
  auto bars = bar_chart(2, text);
  bars.title = bars.y.label = bars.bars[0].name = text;
  auto scene = small_scene({1.0, kNaN});
  scene.title = scene.value_label = scene.known_name = text;
  scene.unknown_name = scene.marks[0].name = text;

  FigureFolder figures(folder / "figures");
  figures.add("lines", lines);
  figures.add("maps", maps);
  figures.add("bars", bars);
  figures.add("scene", scene);
  EXPECT_NO_THROW(figures.draw());
  EXPECT_FALSE(fs::exists(marker));
  for (const char* name : {"lines", "maps", "bars", "scene"}) {
    const auto svg = read_file(figures.path() / (std::string(name) + ".svg"));
    EXPECT_NE(svg.find("'`touch " + marker.string() + "`''\\ \ufffd`touch "),
              std::string::npos)
        << svg;
    EXPECT_NE(svg.find("\ufffd@name {x^{ _~&amp;%s%n 5% \ufffd"),
              std::string::npos)
        << svg;
    EXPECT_EQ(svg.find("<script>"), std::string::npos);
  }
}

TEST_F(ReportFigure, AVeryLongLabelIsCutBetweenCharacters) {
  auto plot = line_plot();
  for (int n = 0; n < 100'000; ++n) plot.series[0].name += "θ";
  FigureFolder figures(folder / "figures");
  figures.add("lines", plot);
  EXPECT_NO_THROW(figures.draw());
  const auto script = read_file(figures.path() / "lines.gp");
  EXPECT_NE(script.find("θθ{}'"), std::string::npos);
  EXPECT_LT(script.size(), 5000u);
}

TEST_F(ReportFigure, AFiguresNameCannotBeACommandOrAPath) {
  FigureFolder figures(folder / "figures");
  for (const std::string name : {"", "a'b", "a b", "../a", "a/b", "-a", "|a",
                                 "<a", "a\nb", "a`b`", "a.b", "a\xff"}) {
    EXPECT_THROW(figures.add(name, line_plot()), std::invalid_argument) << name;
  }
  EXPECT_FALSE(fs::exists(figures.path()));
  figures.add("field-θ_1", line_plot());
  figures.draw();
  EXPECT_TRUE(fs::exists(figures.path() / "field-θ_1.svg"));
}

// Where the points of a kind lie in a picture, those of the legend among them.
std::vector<std::string> places_of(const std::string& svg, int kind) {
  const auto mark = fmt::format("'#gpPt{}' transform='translate(", kind);
  std::vector<std::string> places;
  for (size_t at = 0; (at = svg.find(mark, at)) != std::string::npos;) {
    at += mark.size();
    places.push_back(svg.substr(at, svg.find(')', at) - at));
  }
  return places;
}

// gnuplot does not count a part of the data that is empty.
TEST_F(ReportFigure, APartWithoutPointsDoesNotTakeThePlaceOfAnother) {
  FigureFolder figures(folder / "figures");
  const std::pair<const char*, std::vector<double>> scenes[] = {
      {"some", {1.0, 2.0, kNaN}},
      {"all", {1.0, 2.0, 3.0}},
      {"none", {kNaN, kNaN, kNaN}}};
  for (const auto& [name, values] : scenes) {
    figures.add(name, small_scene(values));
    auto bare = small_scene(values);
    bare.lines.clear();
    figures.add(std::string("bare-") + name, bare);
  }
  figures.draw();
  const auto marks = [&](const std::string& name, int kind) {
    const auto all =
        places_of(read_file(figures.path() / (name + ".svg")), kind);
    return all.empty() ? "" : all.front();
  };
  for (const int kind : {0, 1}) {
    const auto place = marks("some", kind);
    EXPECT_NE(place, "");
    for (const char* name :
         {"all", "none", "bare-some", "bare-all", "bare-none"}) {
      EXPECT_EQ(marks(name, kind), place) << name << kind;
    }
  }
  EXPECT_NE(marks("all", 0), marks("all", 1));
}

TEST_F(ReportFigure, ACurveWithoutPointsDoesNotTakeThePlaceOfAnother) {
  FigureFolder figures(folder / "figures");
  LinePlot plot{.series = {{"empty", {}, {}, Series::Style::kPoints},
                           {"full", {1, 2}, {1, 2}, Series::Style::kPoints}}};
  figures.add("two", plot);
  plot.series.erase(plot.series.begin());
  figures.add("one", plot);
  figures.draw();
  const auto points = [&](const std::string& name) {
    return places_of(read_file(figures.path() / (name + ".svg")), 6).size();
  };
  EXPECT_EQ(points("one"), 3u);  // and that of the legend
  EXPECT_EQ(points("two"), 4u);
}

// What is drawn of each bar: its place and its size.
std::vector<std::string> boxes_of(const std::string& svg) {
  std::vector<std::string> boxes;
  const std::string begin = "<polygon";
  for (size_t at = 0; (at = svg.find(begin, at)) != std::string::npos; ++at) {
    boxes.push_back(svg.substr(at, svg.find("/>", at) - at));
  }
  return boxes;
}

// Neither one without a value nor one whose values are not known.
TEST_F(ReportFigure, BarsWithoutAValueDoNotTakeThePlaceOfOthers) {
  FigureFolder figures(folder / "figures");
  const auto draw = [&](const std::string& name,
                        const std::vector<double>& first) {
    auto chart = bar_chart(2, "a");
    chart.bars[0].values = first;
    figures.add(name, chart);
    figures.draw();
    return boxes_of(read_file(figures.path() / (name + ".svg")));
  };
  const auto both = draw("both", {1, 1});
  auto theirs = draw("empty", {});
  EXPECT_LT(theirs.size(), both.size());
  EXPECT_EQ(draw("unknown", {kNaN, kNaN}), theirs);
  for (const auto& box : theirs) EXPECT_EQ(std::ranges::count(both, box), 1);
}

TEST_F(ReportFigure, WhereNothingIsKnownTheAxesAreDrawn) {
  FigureFolder figures(folder / "figures");
  const std::vector<double> none, unknown{kNaN, kNaN}, known{1, 2};
  for (const bool log : {false, true}) {
    auto bars = bar_chart(2, "a", kNaN);
    bars.bars.pop_back();
    bars.y = {.label = "error", .log = log};
    figures.add("bars", bars);
    LinePlot lines{.x = {.label = "step", .log = log},
                   .y = {.label = "error", .log = log}};
    for (const auto& [x, y] : {std::pair(none, none), std::pair(known, unknown),
                               std::pair(unknown, known)}) {
      lines.series = {{"ours", x, y}};
      figures.add("lines", lines);
      EXPECT_NO_THROW(figures.draw()) << log << x.size();
      for (const char* name : {"bars", "lines"}) {
        const auto file = figures.path() / (std::string(name) + ".svg");
        EXPECT_NE(read_file(file).find("error"), std::string::npos) << name;
      }
    }
  }
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
