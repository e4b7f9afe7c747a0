#include "propagator/tasks/forecast/fields/field_figures.h"

#include <cmath>

#include "propagator/tasks/forecast/fields/field_errors.h"
#include "propagator/tasks/forecast/fields/field_spectrum.h"
#include "testing.h"

namespace propagator::tasks {
namespace {

using testing::random;

// By Parseval, for fields of one to three axes, odd and even.
TEST(TasksFieldSpectrum, AddsUpToTheMeanSquare) {
  for (const std::vector<int64_t>& shape :
       {std::vector<int64_t>{2, 16}, {2, 15}, {3, 8, 9}, {2, 4, 6, 5}}) {
    const auto fields = random(shape, "fields").to(torch::kFloat64);
    const auto sum = energy_spectrum(fields).sum(1);
    const auto square = fields.square().flatten(1).mean(1);
    EXPECT_TRUE(torch::allclose(sum, square, 1e-12)) << shape;
  }
}

// a cos(3 x) has energy a²/2 at 3; a cos(2x) cos(5y) a²/4 at 5.
TEST(TasksFieldSpectrum, AWaveIsAtItsFrequency) {
  const auto at = torch::arange(32, torch::kFloat64) * (2 * M_PI / 32);
  const auto line = energy_spectrum((4 * torch::cos(3 * at)).view({1, 32}))[0];
  EXPECT_NEAR(line[3].item<double>(), 8, 1e-12);
  EXPECT_NEAR(line.sum().item<double>(), 8, 1e-12);
  const auto plane = energy_spectrum(
      (2 * torch::cos(2 * at).view({1, 32, 1}) * torch::cos(5 * at)))[0];
  EXPECT_EQ(plane.size(0), 17);
  EXPECT_NEAR(plane[5].item<double>(), 1, 1e-12);
  EXPECT_NEAR(plane.sum().item<double>(), 1, 1e-12);
}

TEST(TasksFieldSpectrum, ThePlotHasTheMeanOfTheCases) {
  const auto truth = random({3, 4, 16}, "truth"), answer = 2 * truth;
  const auto plot = spectra_plot("u", truth, answer, {1, 3});
  ASSERT_EQ(plot.series.size(), 4u);
  EXPECT_EQ(plot.series[2].name, "truth, frame 3");
  EXPECT_EQ(plot.series[2].colour, plot.series[3].colour);
  ASSERT_EQ(plot.series[0].y.size(), 8u);  // without the mean
  // By hand, with sums of sines and cosines.
  double energy = 0;
  for (int64_t n = 0; n < 3; ++n) {
    double c = 0, s = 0;
    for (int64_t i = 0; i < 16; ++i) {
      const double u = truth[n][1][i].item<double>();
      c += u * std::cos(2 * M_PI * 2 * static_cast<double>(i) / 16);
      s += u * std::sin(2 * M_PI * 2 * static_cast<double>(i) / 16);
    }
    energy += 2 * (c * c + s * s) / (16.0 * 16.0) / 3;
  }
  EXPECT_NEAR(plot.series[0].y[1], energy, 1e-6 * energy);
  EXPECT_NEAR(plot.series[1].y[1], 4 * energy, 4e-6 * energy);
}

// Five cases off by 1 to 5 times 10 %: between the cases, as quantiles are.
TEST(TasksFieldErrors, BandsOfFramesAreQuantilesOverCases) {
  FieldErrors errors;
  for (const double off : {0.3, 0.1, 0.5, 0.2, 0.4}) {
    const auto truth = torch::ones({1, 2, 8, 1}, torch::kFloat64);
    errors.add(truth, truth * (1 + off));
  }
  const auto r = errors.numbers({"u"});
  const std::vector<double> low = r.at("nrmse_per_frame_10"),
                            high = r.at("nrmse_per_frame_90");
  ASSERT_EQ(low.size(), 2u);
  EXPECT_NEAR(low[1], 0.14, 1e-12);
  EXPECT_NEAR(high[0], 0.46, 1e-12);
}

TEST(TasksFieldFigures, MapsHaveThreeRowsACaseOnTheTruthsScale) {
  report::FieldSeries series{.quantity = "u",
                             .times = {0, 1, 2},
                             .cases = {"case 1", "case 2"},
                             .truth = random({2, 3, 4, 5}, "truth")};
  series.prediction = 3 * series.truth;
  const auto maps = maps_over_time(series, {1}, {0, 2});
  ASSERT_EQ(maps.rows.size(), 3u);
  EXPECT_EQ(maps.rows[0].label, "case 2, truth");
  EXPECT_EQ(maps.rows[2].panels[1].title, "frame 2");
  EXPECT_EQ(maps.rows[1].range->second, series.truth[1].max().item<double>());
  EXPECT_TRUE(
      torch::allclose(maps.rows[2].panels[1].values, 2 * series.truth[1][2]));
}

TEST(TasksFieldFigures, FramesAndNamesAreFitForFigures) {
  EXPECT_EQ(telling_frames(5, 50), (std::vector<int64_t>{5, 27, 49}));
  EXPECT_EQ(telling_frames(5, 6), (std::vector<int64_t>{5}));
  EXPECT_EQ(as_file_name("momentum (x)/../'θ"), "momentum--x------θ");
}

}  // namespace
}  // namespace propagator::tasks
