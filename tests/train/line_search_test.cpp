#include "propagator/train/line_search.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "propagator/core/error.h"
#include "propagator/core/random.h"

namespace propagator::train {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Line {
  std::string name;
  std::function<double(double)> value, slope;

  LinePoint at(double a) const { return {a, value(a), slope(a)}; }
  LineResult search(double first, const LineOptions& options = {}) const {
    return train::search(
        at(0), first, [&](double a) { return at(a); }, options);
  }
};

// Moré & Thuente's sums of two hyperbolas with a kink of this sharpness.
Line hyperbolas(double b1, double b2) {
  const auto g = [](double b) { return std::sqrt(1 + b * b) - b; };
  const double g1 = g(b1), g2 = g(b2);
  return {"hyperbolas",
          [=](double a) {
            return g1 * std::hypot(1 - a, b2) + g2 * std::hypot(a, b1);
          },
          [=](double a) {
            return g1 * (a - 1) / std::hypot(1 - a, b2) +
                   g2 * a / std::hypot(a, b1);
          }};
}

// Their valley with a rough floor: |a - 1|, rounded, and a fast sine on it.
Line rough_valley() {
  constexpr double b = 0.01, l = 39, pi = std::numbers::pi;
  return {"rough valley",
          [=](double a) {
            const double base = a <= 1 - b ? 1 - a
                                : a >= 1 + b
                                    ? a - 1
                                    : (a - 1) * (a - 1) / (2 * b) + b / 2;
            return base + 2 * (1 - b) / (l * pi) * std::sin(l * pi / 2 * a);
          },
          [=](double a) {
            const double base = a <= 1 - b ? -1 : a >= 1 + b ? 1 : (a - 1) / b;
            return base + (1 - b) * std::cos(l * pi / 2 * a);
          }};
}

std::vector<Line> lines() {
  return {
      {"parabola", [](double a) { return (a - 1) * (a - 1); },
       [](double a) { return 2 * (a - 1); }},
      {"long slope", [](double a) { return -a / (a * a + 2); },
       [](double a) { return (a * a - 2) / std::pow(a * a + 2, 2); }},
      {"quintic",
       [](double a) {
         const double z = a + 0.004;
         return std::pow(z, 5) - 2 * std::pow(z, 4);
       },
       [](double a) {
         const double z = a + 0.004;
         return 5 * std::pow(z, 4) - 8 * std::pow(z, 3);
       }},
      {"wall", [](double a) { return std::exp(10 * a) - 20 * a; },
       [](double a) { return 10 * std::exp(10 * a) - 20; }},
      {"flat floor", [](double a) { return std::pow(a - 3, 8); },
       [](double a) { return 8 * std::pow(a - 3, 7); }},
      {"barrier",  // NaN from 1 on
       [](double a) { return -std::log(1 - a) - 5 * a; },
       [](double a) { return 1 / (1 - a) - 5; }},
      rough_valley(),
      hyperbolas(0.001, 0.001),
      hyperbolas(0.01, 0.001),
      hyperbolas(0.001, 0.01),
  };
}

TEST(TrainLineSearch, WolfeConditionsHoldWhateverTheFirstStep) {
  int64_t total = 0, searches = 0;
  for (const auto& line : lines()) {
    for (const double c2 : {0.9, 0.1}) {
      for (const double first : {1e-3, 0.1, 1.0, 10.0, 1e3}) {
        const LineOptions options{.c2 = c2};
        const auto result = line.search(first, options);
        const auto start = line.at(0), p = line.at(result.point.step);
        const auto what = line.name + ", c2 " + std::to_string(c2) +
                          ", first step " + std::to_string(first) + ": " +
                          result.reason;
        EXPECT_TRUE(result.wolfe) << what;
        EXPECT_GT(p.step, 0) << what;
        EXPECT_LE(p.value, start.value + options.c1 * p.step * start.slope)
            << what;
        EXPECT_LE(std::abs(p.slope), c2 * std::abs(start.slope)) << what;
        EXPECT_LE(result.evaluations, options.evaluations) << what;
        EXPECT_EQ(p.value, result.point.value) << what;
        total += result.evaluations, ++searches;
      }
    }
  }
  EXPECT_LE(total, 7 * searches);
}

TEST(TrainLineSearch, AParabolaTakesTwoEvaluations) {
  // The cubic through its start and any other point is the parabola itself.
  const auto result = lines()[0].search(1.99, {.c2 = 1e-8});
  EXPECT_NEAR(result.point.step, 1, 1e-12);
  EXPECT_EQ(result.evaluations, 2);
}

TEST(TrainLineSearch, InfiniteValuesShrinkTheStep) {
  for (const double bad : {kNaN, kInfinity, -kInfinity}) {
    const Line line{"cliff", [=](double a) { return a < 1e-8 ? -a : bad; },
                    [](double) { return -1; }};
    const auto result = line.search(1);
    EXPECT_LT(result.point.value, 0);  // no Wolfe point: it falls to the cliff
    EXPECT_GT(result.point.step, 0);
    EXPECT_LT(result.point.step, 1e-8);
    const Line slope{"bad slope", [](double a) { return -a; },
                     [=](double a) { return a < 0.5 ? -1 : bad; }};
    EXPECT_LT(slope.search(1).point.step, 0.5);
  }
  const Line nowhere{"nowhere", [](double a) { return a == 0 ? 1 : kNaN; },
                     [](double) { return -1; }};
  const auto result = nowhere.search(1);
  EXPECT_EQ(result.point.step, 0);
  EXPECT_EQ(result.point.value, 1);
  EXPECT_EQ(result.evaluations, 25);
  EXPECT_FALSE(result.reason.empty());
}

TEST(TrainLineSearch, NothingLowerGivesStepZeroAndTheReason) {
  // The slopes promise a descent that the values do not keep.
  const auto flat = [](double slope) {
    return Line{"flat", [](double) { return 3; },
                [=](double) { return slope; }};
  };
  for (const double slope : {-1.0, -1e-9, -1e-20}) {
    for (const double noise : {0.0, 1e-7}) {
      const auto result = flat(slope).search(1, {.noise = noise});
      EXPECT_EQ(result.point.step, 0) << slope;
      EXPECT_EQ(result.point.value, 3);
      EXPECT_FALSE(result.wolfe);
      EXPECT_FALSE(result.reason.empty());
    }
  }
  const Line liar{"liar", [](double a) { return a; },
                  [](double) { return -1; }};
  EXPECT_EQ(liar.search(1).point.step, 0);
  const Line uphill{"uphill", [](double a) { return a; },
                    [](double) { return 1; }};
  EXPECT_EQ(uphill.search(1).point.step, 0);
  EXPECT_EQ(uphill.search(1).evaluations, 0);
  EXPECT_NE(uphill.search(1).reason.find("descend"), std::string::npos);
  EXPECT_EQ(flat(kNaN).search(1).point.step, 0);
}

TEST(TrainLineSearch, BelowTheNoiseSlopesDecide) {
  // 1 + 1e-9 (a - 1)², as float32 gives it: 1 or a neighbour, whatever the
  // step; only the slope tells.
  constexpr double kNoise = 2.4e-7;
  const auto noisy = [](std::function<double()> error) {
    return Line{"noisy", [=](double a) { return a == 0 ? 1 : 1 + error(); },
                [](double a) { return 2e-9 * (a - 1); }};
  };
  const auto level = noisy([] { return 0; }).search(0.8, {.noise = kNoise});
  EXPECT_EQ(level.point.step, 0.8);
  EXPECT_EQ(level.evaluations, 1);
  EXPECT_FALSE(level.wolfe);
  EXPECT_NE(level.reason.find("noise"), std::string::npos);
  // Noise may lift the value above the start, though not by more than itself.
  const auto lifted = noisy([] { return 1e-7; }).search(0.8, {.noise = kNoise});
  EXPECT_EQ(lifted.point.step, 0.8);
  EXPECT_EQ(lifted.evaluations, 1);
  const auto above = noisy([] { return 3e-7; }).search(0.8, {.noise = kNoise});
  EXPECT_EQ(above.point.step, 0);
}

TEST(TrainLineSearch, NoiseIsToldFromASmoothFunction) {
  const RandomStream random(3, "line-search/noise");
  for (const double deviation : {0.0, 1e-8, 1e-3}) {
    const auto errors = random.normal({2000}).to(torch::kFloat64) * deviation;
    std::vector<double> values;
    for (int64_t n = 0; n < errors.size(0); ++n) {
      const double a = 0.001 * static_cast<double>(n);
      values.push_back(std::exp(-a) + 3 * a * a + errors[n].item<double>());
    }
    EXPECT_NEAR(noise_of(values), deviation, 0.1 * deviation + 2e-13);
    EXPECT_NEAR(noise_of(std::span(values).first(9)), deviation,
                0.7 * deviation + 2e-13);
  }
  EXPECT_THROW(noise_of(std::vector<double>(4)), UsageError);
}

TEST(TrainLineSearch, EndlessDescentGivesTheLowestPointSeen) {
  const Line line{"fall", [](double a) { return -a; },
                  [](double) { return -1; }};
  const auto result = line.search(1, {.evaluations = 5});
  EXPECT_FALSE(result.wolfe);
  EXPECT_EQ(result.evaluations, 5);
  EXPECT_GT(result.point.step, 1e3);
  EXPECT_EQ(result.point.value, -result.point.step);
}

TEST(TrainLineSearch, AFirstStepMustBePositive) {
  for (const double first : {0.0, -1.0, kNaN, kInfinity}) {
    EXPECT_THROW(lines()[0].search(first), UsageError);
  }
}

}  // namespace
}  // namespace propagator::train
