#include "propagator/tasks/locate/location_errors.h"

#include <cmath>

#include "testing.h"

namespace propagator::tasks {
namespace {

using testing::near;

TEST(TasksLocationErrors, DistancesAgainstClosedForms) {
  // Errors of 1, 2, … 100 m along x: two batches of 32, and two shorter.
  const auto truth = testing::random({100, 3}, "truth");
  auto answers = truth.clone();
  answers.select(1, 0) += torch::arange(1, 101, torch::kFloat64);
  const auto errors = distance_errors(answers, truth);
  EXPECT_NEAR(errors.mean, 50.5, 1e-9);
  EXPECT_NEAR(errors.median, 51, 1);
  EXPECT_NEAR(errors.ninety, 90, 1);
  double resolution = 0;
  for (int first = 1; first <= 100; first += 32) {
    double squares = 0;
    int count = 0;
    for (int n = first; n < first + 32 && n <= 100; ++n, ++count) {
      squares += n * n;
    }
    resolution += std::sqrt(squares / (3 * count)) / 4;
  }
  EXPECT_NEAR(errors.resolution, resolution, 1e-9);
}

TEST(TasksLocationErrors, MediansOfClassesAndNoneOfFewEvents) {
  const auto classes = torch::arange(90, torch::kInt64).remainder(3);
  const auto values = torch::arange(90, torch::kFloat64);
  const auto medians = medians_by(classes, values, 4);
  ASSERT_EQ(medians.size(), 4u);
  for (int n = 0; n < 3; ++n) {
    EXPECT_NEAR(medians[static_cast<size_t>(n)], 43.5 + n, 2);
  }
  EXPECT_TRUE(std::isnan(medians[3]));
  EXPECT_TRUE(std::isnan(
      medians_by(classes.slice(0, 0, 30), values.slice(0, 0, 30), 1)[0]));
}

TEST(TasksLocationErrors, DensitiesOfUniformNumbers) {
  // Two thirds of them are within reach, at a density of 1/3.
  const auto values = torch::linspace(-1.5, 1.5, 60001, torch::kFloat64);
  const auto bins = densities(values, 1);
  EXPECT_EQ(bins.at("reach"), 1);
  EXPECT_GT(bins.at("density").size(), 10u);
  for (const double density : bins.at("density")) {
    EXPECT_NEAR(density, 1 / 3.0, 2e-3);
  }
}

TEST(TasksLocationErrors, PullsUndoTheCovariance) {
  // Errors L z of normal z, by columns of L.
  const auto factor = torch::tensor(
      {{2.0, 0.0, 0.0}, {-1.0, 0.5, 0.0}, {0.3, 4.0, 0.1}}, torch::kFloat64);
  const auto u = testing::random({2, 4000, 3}, "u").abs();
  const auto z =
      torch::sqrt(-2 * torch::log(u[0])) * torch::cos(2 * M_PI * u[1]);
  const auto position = testing::random({4000, 3}, "place");
  const models::Located located{position, factor.expand({4000, 3, 3})};
  const auto truth = position + torch::matmul(z, factor.t());
  const auto pulls = pulls_of(located, truth);
  EXPECT_TRUE(near(pulls, z, {1e-9, 1e-9}));
  const auto numbers = describe_pulls(pulls);
  ASSERT_EQ(numbers.at("sigma").size(), 3u);
  for (const double sigma : numbers.at("sigma")) {
    EXPECT_NEAR(sigma, 1, 5 / std::sqrt(2 * 4000.0));
  }
  EXPECT_NEAR(numbers.at("within_68"), 0.6827,
              5 * std::sqrt(0.6827 * 0.3173 / 4000));
}

}  // namespace
}  // namespace propagator::tasks
