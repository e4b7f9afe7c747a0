#include "propagator/nn/kriging.h"

#include <torch/utils.h>

#include <cmath>
#include <numbers>

#include "testing.h"

namespace propagator::nn {
namespace {

using testing::random;
using torch::Tensor;

Tensor kriging_places() { return random({12, 2}, "kriging places"); }
Tensor kriging_readings() {
  const auto x = kriging_places();
  return torch::sin(2 * x.select(1, 0)) * torch::cos(x.select(1, 1)) +
         0.1 * random({12}, "kriging noise");
}

// C + ρ 1, entry by entry.
Tensor dense_covariance(Radial kernel, const Tensor& x,
                        const KrigingParameters& with) {
  const int64_t n = x.size(0);
  auto c = torch::zeros({n, n}, torch::kFloat64);
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      const double r =
          ((x[i] - x[j]) / with.lengths).square().sum().sqrt().item<double>();
      c[i][j] = kernel == Radial::kMatern52
                    ? (1 + std::sqrt(5.) * r + 5 * r * r / 3) *
                          std::exp(-std::sqrt(5.) * r)
                    : std::exp(-r * r / 2);
    }
    c[i][i] += with.noise;
  }
  return c;
}

// The logarithm of a normal density of y with covariance σ² C.
double log_density(const Tensor& c, const Tensor& y, double amplitude) {
  const auto n = static_cast<double>(y.size(0));
  const auto solved = torch::mv(torch::inverse(c), y);
  return -0.5 * torch::dot(y, solved).item<double>() / amplitude -
         0.5 * torch::logdet(c).item<double>() -
         0.5 * n * std::log(2 * std::numbers::pi * amplitude);
}

const KrigingParameters kSomeKriging{torch::tensor({0.6, 1.4}, torch::kFloat64),
                                     0.05};

TEST(NnKriging, TheLikelihoodIsTheNormalDensityWithTheBestAmplitude) {
  for (const auto kernel : {Radial::kSquaredExponential, Radial::kMatern52}) {
    const auto y = kriging_readings();
    const auto c = dense_covariance(kernel, kriging_places(), kSomeKriging);
    const double amplitude =
        torch::dot(y, torch::mv(torch::inverse(c), y)).item<double>() / 12;
    const double value =
        kriging_likelihood(kernel, kriging_places(), y, kSomeKriging).value;
    EXPECT_NEAR(value, log_density(c, y, amplitude), 1e-9);
    for (const double factor : {0.8, 1.25}) {
      EXPECT_GT(value, log_density(c, y, factor * amplitude));
    }
  }
}

TEST(NnKriging, ItsGradientIsThatOfDifferences) {
  const auto at = [](const Tensor& logs) {
    return KrigingParameters{logs.slice(0, 0, 2).exp(),
                             std::exp(logs[2].item<double>())};
  };
  const auto logs =
      torch::cat({kSomeKriging.lengths.log(),
                  torch::tensor({std::log(0.05)}, torch::kFloat64)});
  for (const auto kernel : {Radial::kSquaredExponential, Radial::kMatern52}) {
    const auto value = [&](const Tensor& l) {
      return kriging_likelihood(kernel, kriging_places(), kriging_readings(),
                                at(l))
          .value;
    };
    const auto gradient = kriging_likelihood(kernel, kriging_places(),
                                             kriging_readings(), at(logs))
                              .gradient;
    for (int64_t n = 0; n < 3; ++n) {
      auto step = torch::zeros({3}, torch::kFloat64);
      step[n] = 1e-5;
      const double difference =
          (value(logs + step) - value(logs - step)) / 2e-5;
      EXPECT_NEAR(gradient[n].item<double>(), difference,
                  1e-7 * (1 + std::abs(difference)));
    }
  }
}

TEST(NnKriging, TheFitIsAMaximumThatNoNeighbourExceeds) {
  const auto x = random({80, 2}, "fit places");
  const auto y = torch::sin(3 * x.select(1, 0)) + 0.3 * x.select(1, 1) +
                 0.1 * random({80}, "fit noise");
  const auto kernel = Radial::kSquaredExponential;
  const auto found = fit_kriging(kernel, x, y, {});
  const double best = kriging_likelihood(kernel, x, y, found).value;
  for (const double factor : {0.9, 1.1}) {
    for (int64_t a = 0; a < 2; ++a) {
      auto other = KrigingParameters{found.lengths.clone(), found.noise};
      other.lengths[a] *= factor;
      EXPECT_GE(best + 1e-6, kriging_likelihood(kernel, x, y, other).value);
    }
    EXPECT_GT(best, kriging_likelihood(kernel, x, y,
                                       {found.lengths, factor * found.noise})
                        .value);
  }
  // Uniform on ±0.1 has a standard deviation of 0.058.
  const auto solution = solve_kriging(kernel, x, y, found);
  EXPECT_NEAR(std::sqrt(solution.amplitude * solution.noise), 0.058, 0.015);
  EXPECT_GT(found.lengths[1].item<double>(), found.lengths[0].item<double>())
      << "it changes less along the second axis";
}

TEST(NnKriging, TheSolutionIsThatOfTheDenseSystem) {
  for (const auto kernel : {Radial::kSquaredExponential, Radial::kMatern52}) {
    const auto solution = solve_kriging(kernel, kriging_places(),
                                        kriging_readings(), kSomeKriging);
    const auto inverse = torch::inverse(
        dense_covariance(kernel, kriging_places(), kSomeKriging));
    EXPECT_TRUE(testing::near(solution.weights,
                              torch::mv(inverse, kriging_readings()),
                              {1e-9, 1e-10}));
    EXPECT_TRUE(testing::near(torch::mm(solution.factor.t(), solution.factor),
                              inverse, {1e-9, 1e-9}));
    EXPECT_EQ(solution.noise, kSomeKriging.noise);
  }
}

TEST(NnKriging, TwoReadingsOfOnePlaceNeedMoreNoiseAndGetIt) {
  const auto x = torch::tensor({{0.1}, {0.1}, {0.5}}, torch::kFloat64);
  const auto y = torch::tensor({1., 2., 0.}, torch::kFloat64);
  const auto solution =
      solve_kriging(Radial::kSquaredExponential, x, y,
                    {torch::ones({1}, torch::kFloat64), 1e-18});
  EXPECT_GT(solution.noise, 1e-18);
  EXPECT_TRUE(torch::isfinite(solution.weights).all().item<bool>());
}

}  // namespace
}  // namespace propagator::nn
