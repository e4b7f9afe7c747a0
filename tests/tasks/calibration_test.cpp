#include "propagator/tasks/calibration.h"

#include <torch/utils.h>

#include <cmath>

#include "testing.h"

namespace propagator::tasks {
namespace {

// |z| of n normal numbers, one from each of n equal parts of all.
torch::Tensor normal_sample(int64_t n) {
  const auto shares =
      (torch::arange(n, torch::kFloat64) + 0.5) / static_cast<double>(n);
  return std::sqrt(2.0) * torch::erfinv(shares);
}

TEST(TasksCalibration, ReachesAreThoseOfANormalNumber) {
  EXPECT_NEAR(normal_reach(0.5), 0.6744897501960817, 1e-12);
  EXPECT_NEAR(normal_reach(0.95), 1.959963984540054, 1e-12);
  EXPECT_NEAR(std::erf(normal_reach(0.37) / std::sqrt(2.0)), 0.37, 1e-12);
}

TEST(TasksCalibration, ANormalSampleIsOnTheDiagonal) {
  const auto curve = CoverageCurve::of(normal_sample(1000));
  EXPECT_EQ(curve.readings, 1000);
  ASSERT_GT(curve.predicted.size(), 20u);
  for (size_t n = 0; n < curve.predicted.size(); ++n) {
    EXPECT_NEAR(curve.observed[n], curve.predicted[n], 1e-3);
  }
  EXPECT_LT(curve.error(), 1e-3);
}

TEST(TasksCalibration, IntervalsOfTheWrongSizeAreSeen) {
  // Deviations were taken for twice what they are, or for half of it.
  const auto sample = normal_sample(20'000);
  for (const double factor : {0.5, 2.0}) {
    const auto curve = CoverageCurve::of(sample * factor);
    for (size_t n = 0; n < curve.predicted.size(); ++n) {
      const double reach = normal_reach(curve.predicted[n]);
      EXPECT_NEAR(curve.observed[n], std::erf(reach / factor / std::sqrt(2.0)),
                  1e-4);
    }
    EXPECT_GT(curve.error(), 0.1);
  }
  // All inside every interval: the mean of 1 - p.
  EXPECT_NEAR(CoverageCurve::of(torch::zeros({3}, torch::kFloat64)).error(),
              0.5, 1e-12);
}

TEST(TasksCalibration, ThePlotHasTheCurvesAndTheBandOfTheFirst) {
  const auto curve = CoverageCurve::of(normal_sample(16));
  const auto plot = calibration_plot({{"held out", curve}});
  ASSERT_EQ(plot.series.size(), 3u);
  EXPECT_EQ(plot.series[0].name, "held out, 16 readings");
  const auto middle = curve.predicted.size() / 2;
  ASSERT_DOUBLE_EQ(plot.series[0].x[middle], 50);
  EXPECT_DOUBLE_EQ(plot.series[0].y[middle], 50);
  // ± 1.96 √(0.5 · 0.5 / 16)
  const auto& band = plot.series[2];
  const auto back = band.y.size() - 1 - middle;
  EXPECT_DOUBLE_EQ(band.x[back], 50);
  EXPECT_NEAR(band.y[middle], 50 + 24.4995, 1e-3);
  EXPECT_NEAR(band.y[back], 50 - 24.4995, 1e-3);
  EXPECT_EQ(band.y[curve.predicted.size() - 1], 100) << "never above all";
}

// 1/2 z² + log σ + 1/2 log 2π of each; those without a deviation count nothing.
TEST(TasksCalibration, TheLikelihoodIsThatOfNormalNumbers) {
  const auto error = torch::tensor({0.3, -2.0, 7.0}, torch::kFloat64);
  const auto deviation = torch::tensor({0.1, 4.0, 0.0}, torch::kFloat64);
  const double constant = 0.9189385332046727;
  const double expected =
      ((4.5 + std::log(0.1)) + (0.125 + std::log(4.0))) / 2 + constant;
  EXPECT_NEAR(normal_nll(error, deviation).item<double>(), expected, 1e-12);
  EXPECT_TRUE(testing::gradient_is_right(
      [&](const torch::Tensor& x) { return normal_nll(x, deviation); }, error));
  EXPECT_TRUE(testing::gradient_is_right(
      [&](const torch::Tensor& x) {
        return normal_nll(error.slice(0, 0, 2), x);
      },
      deviation.slice(0, 0, 2).clone()));
  // Of given errors the best deviation is their root mean square.
  const auto best = torch::full(
      {3}, error.square().mean().sqrt().item<double>(), torch::kFloat64);
  for (const double factor : {0.9, 1.1}) {
    EXPECT_LT(normal_nll(error, best).item<double>(),
              normal_nll(error, factor * best).item<double>());
  }
  EXPECT_EQ(
      normal_nll(error, torch::zeros({3}, torch::kFloat64)).item<double>(), 0);
}

// Of 4 samples there are five ranks, 0 to 4, and each is a part.
TEST(TasksCalibration, RanksAreCountedAgainstWhatIsRight) {
  const auto all = torch::tensor({0., 0.25, 0.5, 0.75, 1.}, torch::kFloat64);
  EXPECT_EQ(rank_histogram(all, 4), std::vector<double>(5, 1.0));
  EXPECT_EQ(rank_histogram(torch::zeros({8}, torch::kFloat64), 4),
            (std::vector<double>{5, 0, 0, 0, 0}));
  // 201 ranks in 20 parts, of which one has a rank more: all as likely.
  const auto many = torch::arange(201, torch::kFloat64) / 200;
  for (const double share : rank_histogram(many, 200)) {
    EXPECT_NEAR(share, 1, 1e-12);
  }
}

TEST(TasksCalibration, RanksAreDrawnWithTheirBand) {
  const auto plot = rank_plot({{"x", {1, 3, 1, 1}}}, 300);
  ASSERT_EQ(plot.series.size(), 1u);
  EXPECT_EQ(plot.series[0].x,
            (std::vector<double>{0, 25, 25, 50, 50, 75, 75, 100}));
  EXPECT_EQ(plot.series[0].y[2], 3);
  // A part has a quarter of 300: 75 ± 7.5, that is 1 ± 0.1 of what is right.
  EXPECT_NEAR(plot.bands.at(0).high[0], 1 + 1.96 * 0.1, 1e-4);
}

}  // namespace
}  // namespace propagator::tasks
