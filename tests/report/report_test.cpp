#include "propagator/report/report.h"

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "propagator/core/process.h"
#include "report/page_reading.h"
#include "testing.h"

namespace propagator::report {
namespace {

using propagator::testing::explored;
using propagator::testing::from_base64;
using propagator::testing::OnlyPath;
using propagator::testing::TemporaryFolder;
using propagator::testing::title_in_browser;
using propagator::testing::unpacked;

// Two cases, 5 frames of 4 x 6 nodes whose values tell where they are.
FieldSeries series() {
  auto truth = torch::empty({2, 5, 4, 6}, torch::kFloat64);
  for (int64_t n = 0; n < 2; ++n) {
    for (int64_t t = 0; t < 5; ++t) {
      for (int64_t r = 0; r < 4; ++r) {
        for (int64_t c = 0; c < 6; ++c) {
          truth[n][t][r][c] = 10 * n + t + 0.1 * static_cast<double>(r) +
                              0.01 * static_cast<double>(c);
        }
      }
    }
  }
  return {.quantity = "temperature",
          .unit = "K",
          .times = {0, 10, 20, 30, 40},
          .cases = {"first </script><!--<script>", "second"},
          .x = {"x (m)", 0, 1},
          .y = {"y (m)", 1, 0},
          .truth = truth,
          .prediction = truth + 1e-4 * torch::sin(truth)};
}

std::string page_of(const fs::path& folder) {
  Report report(folder, "report.html", "A <title>", "under & over");
  report.section("Numbers");
  Table table({"model", "MSE"});
  table.row({"ours <b>", "1.2e-6"});
  report.table(table);
  report.verdict(true, "no leaks");
  report.facts({{"device", "cpu"}});
  report.folded("Configuration", "a: <b>");
  report.section("Pictures");
  report.figure("loss",
                LinePlot{.title = "Loss",
                         .x = {.label = "step"},
                         .y = {.label = "loss"},
                         .series = {{"", {0, 1}, {1, 2}}}},
                "The loss.");
  report.animation(series(), {0}, "animation", "An animation.");
  report.explorer(series());
  return read_file(report.write());
}

TEST(ReportPage, IsWholeEscapedAndNeedsNoNetwork) {
  const TemporaryFolder folder;
  const auto page = page_of(folder.path());
  for (const char* text :
       {"<title>A &lt;title&gt;</title>", "under &amp; over", "ours &lt;b&gt;",
        "class=\"number\">1.2e-6", "verdict good", "a: &lt;b&gt;",
        "href=\"#section-2\"", "id=\"section-2\"",
        "first \\u003c/script>\\u003c!--\\u003cscript>"}) {
    EXPECT_NE(page.find(text), std::string::npos) << text;
  }
  for (const char* text :
       {"src=\"http", "href=\"http", "url(http", "@import", "src=\"figures"}) {
    EXPECT_EQ(page.find(text), std::string::npos) << text;
  }
  if (FigureFolder::can_draw()) {
    EXPECT_NE(page.find("data:image/svg+xml;base64,"), std::string::npos);
  }
}

TEST(ReportPage, ASectionWithNothingInItIsNotThere) {
  const TemporaryFolder folder;
  Report report(folder.path(), "report.html", "A title", "");
  report.section("First");
  report.text("something");
  report.section("Empty");
  report.section("Last");
  report.text("more");
  report.section("Empty");
  const auto page = read_file(report.write());
  EXPECT_EQ(page.find("Empty"), std::string::npos);
  const auto count = [&](const std::string& text) {
    int64_t found = 0;
    for (auto at = page.find(text); at != std::string::npos;
         at = page.find(text, at + 1)) {
      ++found;
    }
    return found;
  };
  EXPECT_EQ(count("<section "), 2);
  EXPECT_EQ(count("</section>"), 2);
  EXPECT_EQ(count("href=\"#section-2\">Last"), 1);
}

TEST(ReportPage, WithoutGnuplotSaysWhatToInstall) {
  const TemporaryFolder folder;
  const OnlyPath no_programs;
  const auto page = page_of(folder.path());
  EXPECT_NE(page.find("gnuplot-nox"), std::string::npos);
  EXPECT_NE(page.find("figures/loss.gp"), std::string::npos);
  EXPECT_TRUE(fs::exists(folder / "figures/loss.dat"));
}

TEST(ReportPage, TheExplorerHoldsTheFields) {
  const TemporaryFolder folder;
  const auto data = explored(page_of(folder.path()));
  const auto fields = series();
  for (int64_t n = 0; n < 2; ++n) {
    const auto& one = data.at("cases")[n];
    const double low = one.at("low"), high = one.at("high");
    const double most = one.at("error");
    const auto values = unpacked(data, one.at("values"), low, high);
    const auto errors = unpacked(data, one.at("difference"), -most, most);
    const auto truth = fields.truth[n].flatten();
    const auto wrong = (fields.prediction - fields.truth)[n].flatten();
    ASSERT_EQ(std::ssize(values), truth.numel());
    for (int64_t k = 0; k < truth.numel(); ++k) {
      const auto at = static_cast<size_t>(k);
      EXPECT_NEAR(values[at], truth[k].item<double>(), (high - low) / 16383);
      EXPECT_NEAR(errors[at], wrong[k].item<double>(), 2 * most / 16383);
    }
  }
}

TEST(ReportPage, AnExplorerOfManyNodesHasFewerFrames) {
  const TemporaryFolder folder;
  Report report(folder.path(), "report.html", "large", "");
  report.section("Fields");
  FieldSeries large{.cases = {"u", "v", "p"}};
  for (int t = 0; t < 80; ++t) large.times.push_back(t);
  large.prediction = torch::zeros({3, 80, 100, 50});
  large.truth = large.prediction;
  report.explorer(large);
  const auto page = read_file(report.write());
  EXPECT_LT(page.size(), 5u << 20);
  const auto data = explored(page);
  const std::vector<double> times = data.at("times");
  EXPECT_EQ(times.size(), 50u);  // 3 MB in 60 kB each
  EXPECT_EQ(times.front(), 0);
  EXPECT_EQ(times.back(), 79);
}

TEST(ReportPage, WithoutATruthTheExplorerHoldsThePrediction) {
  const TemporaryFolder folder;
  Report report(folder.path(), "report.html", "prediction", "");
  report.section("Fields");
  auto fields = series();
  fields.truth = torch::Tensor();
  report.explorer(fields);
  const auto data = explored(read_file(report.write()));
  EXPECT_FALSE(data.at("has_truth").get<bool>());
  const auto& one = data.at("cases")[1];
  EXPECT_FALSE(one.contains("difference"));
  const double low = one.at("low"), high = one.at("high");
  EXPECT_NEAR(unpacked(data, one.at("values"), low, high)[7],
              fields.prediction[1][0][1][1].item<double>(),
              (high - low) / 16383);
}

TEST(ReportPage, MapsKeepTheirValuesAndTheirMask) {
  const TemporaryFolder folder;
  auto maps = torch::linspace(0, 1, 2 * 3 * 4, torch::kFloat64).view({2, 3, 4});
  maps[1][2][3] = std::nan("");
  Report report(folder.path(), "report.html", "maps", "");
  report.section("Maps");
  report.explorer(
      MapChoices{.label = "weight",
                 .x = {"key", 0, 3},
                 .y = {"query", 0, 2},
                 .choices = {{"layer", {"1"}}, {"head", {"1", "2"}}},
                 .maps = maps});
  const auto page = read_file(report.write());
  const std::string begin =
      "data-kind=\"maps\"><script type=\"application/json\">";
  const size_t at = page.find(begin) + begin.size();
  const auto data =
      nlohmann::json::parse(page.substr(at, page.find("</script>", at) - at));
  const auto& second = data.at("maps")[1];
  const auto bytes = from_base64(second.at("data"));
  ASSERT_EQ(bytes.size(), 12u);
  EXPECT_EQ(static_cast<unsigned char>(bytes[11]), 255);  // hidden
  const double low = second.at("low"), high = second.at("high");
  EXPECT_NEAR(low + (high - low) * static_cast<unsigned char>(bytes[5]) / 254,
              maps[1][1][1].item<double>(), (high - low) / 254);
}

// The page as a reader's browser has it: the slider is moved, a node is
// pointed at, and what the page says is compared with the field.
TEST(ReportPage, ChromiumMovesTheSliderAndReadsAValue) {
  const auto chromium = find_program("chromium");
  if (chromium.empty()) GTEST_SKIP() << "no chromium here";
  const TemporaryFolder folder;
  page_of(folder.path());
  const auto said = title_in_browser(chromium, folder.path(), R"(<script>
    const box = document.querySelector('.explorer[data-kind=fields]');
    const chooser = box.querySelector('select.case');
    chooser.selectedIndex = 1;
    chooser.dispatchEvent(new Event('change'));
    const slider = box.querySelector('input.time');
    slider.value = 3;
    slider.dispatchEvent(new Event('input'));
    const canvas = box.querySelector('canvas.prediction');
    const frame = canvas.getBoundingClientRect();
    canvas.dispatchEvent(new MouseEvent('mousemove', {bubbles: true,
      clientX: frame.left + frame.width * 4.5 / 6,
      clientY: frame.top + frame.height * 2.5 / 4}));
    const said = box.querySelector('output.readout');
    document.title = JSON.stringify({...said.dataset, text: said.textContent});
  </script>)");
  ASSERT_TRUE(said.is_object()) << said;
  const auto number = [&](const char* key) {
    return std::stod(said.at(key).get<std::string>());
  };
  const auto fields = series();
  EXPECT_EQ(number("time"), 30);
  EXPECT_EQ(number("row"), 2);
  EXPECT_EQ(number("col"), 4);
  const double truth = fields.truth[1][3][2][4].item<double>();
  const double wrong = fields.prediction[1][3][2][4].item<double>() - truth;
  EXPECT_NEAR(number("truth"), truth, 3e-4);  // a step is 4.4 / 16383
  EXPECT_NEAR(number("error"), wrong, 1e-8);
  EXPECT_NE(said.at("text").get<std::string>().find("truth 13.2"),
            std::string::npos)
      << said;
}

// One frame has no time to move through, and no truth nothing to compare with.
TEST(ReportPage, ChromiumShowsOnePredictionByItself) {
  const auto chromium = find_program("chromium");
  if (chromium.empty()) GTEST_SKIP() << "no chromium here";
  const TemporaryFolder folder;
  Report report(folder.path(), "report.html", "prediction", "");
  report.section("Fields");
  auto fields = series();
  fields.quantity = "";
  fields.cases = {"u", "v"};
  fields.times = {0};
  fields.prediction = fields.prediction.slice(1, 0, 1);
  fields.truth = torch::Tensor();
  report.explorer(fields);
  report.write();
  const auto said = title_in_browser(chromium, folder.path(), R"(<script>
    const box = document.querySelector('.explorer[data-kind=fields]');
    const chooser = box.querySelector('select.case');
    chooser.selectedIndex = 1;
    chooser.dispatchEvent(new Event('change'));
    document.title = JSON.stringify({
      ...box.querySelector('output.readout').dataset,
      panels: [...box.querySelectorAll('.title')].map(t => t.textContent),
      controls: box.querySelectorAll('input, button, canvas.chart').length,
      broken: !box.querySelector('p.missing').hidden});
  </script>)");
  ASSERT_TRUE(said.is_object()) << said;
  EXPECT_FALSE(said.at("broken").get<bool>());
  EXPECT_EQ(said.at("panels"), nlohmann::json({"prediction v"}));
  EXPECT_EQ(said.at("controls"), 0);
  EXPECT_FALSE(said.contains("truth"));
  EXPECT_NEAR(std::stod(said.at("prediction").get<std::string>()),
              fields.prediction[1][0][2][3].item<double>(), 3e-4);
}

}  // namespace
}  // namespace propagator::report
