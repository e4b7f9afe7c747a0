#include "propagator/report/field_maps.h"

#include "propagator/report/gnuplot.h"
#include "testing.h"

namespace propagator::report {
namespace {

using propagator::testing::TemporaryFolder;

// The answer of model `n`, wrong by 10^-n everywhere but where it is right.
ComparedMaps answer(int n) {
  const auto truth = torch::tensor({{{0.0, 1.0, 2.0}, {3.0, 4.0, 5.0}}},
                                   torch::kFloat64);  // (1, 2, 3)
  auto values = truth - std::pow(10.0, -n);
  values[0][0][1] = 1;
  return {.title = fmt::format("model {}", n),
          .remark = fmt::format("error {}", n),
          .maps = {.subject = "s",
                   .model = "m",
                   .names = {"u"},
                   .x = {"t", 0, 1},
                   .y = {"x", 1, 0},
                   .answer = values,
                   .truth = truth,
                   .truth_name = "exact"}};
}

std::vector<ComparedMaps> answers(int count) {
  std::vector<ComparedMaps> all;
  for (int n = 0; n < count; ++n) all.push_back(answer(n));
  return all;
}

std::vector<std::string> titles(const PanelRow& row) {
  std::vector<std::string> titles;
  for (const auto& panel : row.panels) titles.push_back(panel.title);
  return titles;
}

using Titles = std::vector<std::string>;

TEST(ReportFieldMaps, EveryAnswerHasItsErrorBelowAndAllHaveOneScale) {
  const auto maps = compare("title", answers(6));
  ASSERT_EQ(maps.rows.size(), 4u);  // the truth and six answers in two lines
  EXPECT_EQ(titles(maps.rows[0]),
            (Titles{"exact", "model 0", "model 1", "model 2"}));
  EXPECT_EQ(titles(maps.rows[1]),
            (Titles{"", "error 0", "error 1", "error 2"}));
  EXPECT_EQ(titles(maps.rows[2]), (Titles{"model 3", "model 4", "model 5"}));
  EXPECT_EQ(titles(maps.rows[3]), (Titles{"error 3", "error 4", "error 5"}));
  EXPECT_FALSE(maps.rows[1].panels[0].values.defined());
  const auto exact = answer(0).maps.truth[0];
  for (const int line : {0, 2}) {
    const auto& fields = maps.rows[static_cast<size_t>(line)];
    const auto& errors = maps.rows[static_cast<size_t>(line) + 1];
    EXPECT_EQ(limits(fields), std::pair(0.0, 5.0));  // of the truth
    // The best is wrong by 1e-5 at five of six points, by 9.1e-6 in the mean.
    EXPECT_NEAR(limits(errors).first / 1e-7, 1, 1e-12);
    EXPECT_EQ(limits(errors).second, 1);
    EXPECT_TRUE(errors.log);
    for (size_t c = 0; c < errors.panels.size(); ++c) {
      if (!errors.panels[c].values.defined()) continue;
      EXPECT_TRUE(torch::equal(errors.panels[c].values,
                               (fields.panels[c].values - exact).abs()));
    }
  }
}

TEST(ReportFieldMaps, WithoutATruthTheFieldsAloneAreShown) {
  auto all = answers(2);
  for (auto& one : all) one.maps.truth = torch::Tensor();
  const auto maps = compare("title", all);
  ASSERT_EQ(maps.rows.size(), 1u);
  EXPECT_EQ(titles(maps.rows[0]), (Titles{"model 0", "model 1"}));
  EXPECT_EQ(limits(maps.rows[0]), std::pair(-1.0, 4.9));
}

TEST(ReportFieldMaps, DataAndPictureAreWritten) {
  const TemporaryFolder folder;
  FigureFolder figures(folder.path());
  figures.add("maps", compare("title", answers(2)));
  const auto errors = read_file(folder / "maps-2.dat");
  // Zero, where the answer is right, is in the data as it is.
  EXPECT_NE(errors.find("error 1\n0.1\t0\t0.1\n0.1\t0.1\t0.1\n"),
            std::string::npos)
      << errors;
  if (!FigureFolder::can_draw()) GTEST_SKIP() << "no gnuplot here";
  figures.draw();
  const auto svg = read_file(folder / "maps.svg");
  for (const char* text :
       {"exact", "model 0", "model 1", "error 0", "error 1", "|u - exact|"}) {
    EXPECT_NE(svg.find(text), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace propagator::report
