#include "propagator/physics/detector/photoelectrons.h"

#include <cmath>
#include <vector>

#include "propagator/core/error.h"
#include "propagator/core/random.h"
#include "propagator/physics/detector/event_fit.h"
#include "testing.h"

namespace propagator::physics {
namespace {

using propagator::testing::near;
using propagator::testing::thrown;

double poisson(double mean, double n) {
  return std::exp(n * std::log(mean) - mean - std::lgamma(n + 1));
}

TEST(PhysicsPhotoelectrons, CountsHaveTheirProbabilities) {
  // The shares of a fine grid of u are the probabilities themselves.
  constexpr int kGrid = 200'000;
  for (const double mean : {0.05, 0.8, 4.0, 29.5, 30.5, 300.0}) {
    std::vector<double> share(600);
    for (int k = 0; k < kGrid; ++k) {
      const double n = photoelectrons(mean, (k + 0.5) / kGrid);
      ASSERT_LT(n, 600);
      share[static_cast<size_t>(n)] += 1.0 / kGrid;
    }
    for (size_t n = 0; n < share.size(); ++n) {
      EXPECT_NEAR(share[n], poisson(mean, static_cast<double>(n)), 1.01 / kGrid)
          << mean << " " << n;
    }
  }
}

TEST(PhysicsPhotoelectrons, MeanAndVarianceAreLambda) {
  constexpr int64_t kCount = 40'000;
  const RandomStream stream(3, "test");
  for (const double mean : {0.3, 12.0, 5e3, 4e6}) {
    const int64_t count = mean > 1e3 ? kCount / 20 : kCount;
    double sum = 0, squares = 0;
    for (int64_t k = 0; k < count; ++k) {
      const double z = std::sqrt(-2 * std::log1p(-stream.uniform(k, 1))) *
                       std::cos(2 * M_PI * stream.uniform(k, 2));
      const double n = photoelectrons(mean, stream.uniform(k, 0), z);
      EXPECT_EQ(n, std::round(n));
      sum += n - mean;
      squares += (n - mean) * (n - mean);
    }
    const auto total = static_cast<double>(count);
    EXPECT_NEAR(sum / total, 0, 5 * std::sqrt(mean / total));
    EXPECT_NEAR(squares / total, mean,
                5 * std::sqrt((2 * mean * mean + mean) / total));
  }
}

TEST(PhysicsPhotoelectrons, OneAtLeastExactlyWhereASensorFires) {
  for (const double mean : {1e-9, 0.8, 31.0, 800.0, 1e9}) {
    const double fires = -std::expm1(-mean);
    EXPECT_GE(photoelectrons(mean, fires * (1 - 1e-15)), 1) << mean;
    EXPECT_GE(photoelectrons(mean, 0), 1) << mean;
    if (fires < 1) {
      EXPECT_EQ(photoelectrons(mean, fires), 0) << mean;
    }
  }
  EXPECT_EQ(photoelectrons(0, 0), 0);
}

TEST(PhysicsPhotoelectrons, ChargesLeaveEventsAsTheyAreAndHaveTheirMean) {
  for (const double dark : {0.0, 0.7}) {
    DetectorOptions o;
    o.jitter = 1, o.dark = dark, o.trigger = 0;
    o.event_time = EventTime::kUnknown;
    const auto without = draw_events(make_detector(o), 4, 0, 20'000);
    EXPECT_FALSE(without.charges.defined());
    o.charge = true;
    const auto detector = make_detector(o);
    const auto with = draw_events(detector, 4, 0, 20'000);
    EXPECT_TRUE(torch::equal(with.vertices, without.vertices));
    EXPECT_TRUE(torch::equal(with.times, without.times));
    EXPECT_TRUE(torch::equal(with.hits, without.hits));
    EXPECT_TRUE(torch::equal(with.charges > 0, with.hits));
    // Poisson(λ + dark) at every distance, in shells.
    const auto distance =
        (with.vertices.unsqueeze(1) - detector.positions()).norm(2, 2);
    const auto mean = detector.light_at_unit() / distance.square() + dark;
    for (double d = 1; d < 16; d += 3) {
      const auto shell = (distance >= d).logical_and(distance < d + 3);
      const auto expected = mean.masked_select(shell);
      const auto gap = with.charges.masked_select(shell) - expected;
      const double sum = expected.sum().item<double>();
      EXPECT_NEAR(gap.sum().item<double>(), 0, 5 * std::sqrt(sum));
      EXPECT_NEAR(
          gap.square().sum().item<double>(), sum,
          5 * std::sqrt(
                  (2 * expected.square() + expected).sum().item<double>()));
    }
    EXPECT_TRUE(torch::equal(draw_events(detector, 4, 500, 3).charges,
                             with.charges.slice(0, 500, 503)));
  }
}

TEST(PhysicsPhotoelectrons, LikelihoodOfChargesIsThatOfTheSimulator) {
  DetectorOptions o;
  o.jitter = 2, o.charge = true;
  const auto detector = make_detector(o);
  const auto events = draw_events(detector, 1, 0, 20);
  const auto at = 4 * testing::random({20, 3}, "place");
  const auto zero = torch::zeros({20}, torch::kFloat64);
  const auto found = log_likelihood(detector, events, at, zero);
  for (int64_t n = 0; n < 20; ++n) {
    double expected = 0;
    for (int64_t i = 0; i < 8; ++i) {
      const double d = (at[n] - detector.positions()[i]).norm().item<double>();
      const double lambda = detector.mean_light(d);
      const double count = events.charges[n][i].item<double>();
      expected += std::log(poisson(lambda, count));
      if (count == 0) continue;
      const double z =
          (events.times[n][i].item<double>() - detector.travel_time(d)) / 2;
      expected += -z * z / 2 - std::log(2 * std::sqrt(2 * M_PI));
    }
    EXPECT_NEAR(found.values[n].item<double>(), expected,
                1e-10 * std::abs(expected));
  }
  // Derivatives along a direction against differences.
  const auto direction = testing::random({20, 3}, "direction");
  constexpr double kStep = 1e-5;
  const auto shifted = [&](double step) {
    return log_likelihood(detector, events, at + step * direction, zero);
  };
  const auto above = shifted(kStep), below = shifted(-kStep);
  const auto slope = (found.gradients.slice(1, 0, 3) * direction).sum(1);
  EXPECT_TRUE(
      near((above.values - below.values) / (2 * kStep), slope, {1e-6, 1e-6}));
  const auto curve = torch::matmul(found.seconds.slice(1, 0, 3).slice(2, 0, 3),
                                   direction.unsqueeze(2))
                         .squeeze(2);
  EXPECT_TRUE(
      near((above.gradients - below.gradients).slice(1, 0, 3) / (2 * kStep),
           curve, {1e-6, 1e-6}));
}

TEST(PhysicsPhotoelectrons, ChargesHelpTheLikelihoodAloneAndNotBesideDarkHits) {
  DetectorOptions o;
  o.jitter = 10, o.light_yield = 20, o.charge = true;
  const auto detector = make_detector(o);
  EXPECT_TRUE(uses_charges(detector));
  auto events = draw_events(detector, 2, 0, 300);
  const auto error = [&](const EventFit& fit) {
    return (fit.vertices - events.vertices).norm(2, 1).median().item<double>();
  };
  const double squares = error(least_squares(detector, events));
  const double with = error(maximum_likelihood(detector, events));
  auto bare = events;
  bare.charges = torch::Tensor();
  const double without = error(maximum_likelihood(detector, bare));
  EXPECT_LT(with, 0.8 * without);
  EXPECT_LT(with, 0.8 * squares);
  EXPECT_EQ(error(least_squares(detector, bare)), squares);
  bare.charges = events.charges.slice(1, 1);
  EXPECT_NE(thrown<UsageError>([&] {
              maximum_likelihood(detector, bare);
            }).find("charges of (300, 8), got (300, 7)"),
            std::string::npos);
  bare.charges = events.charges.clone().fill_(0);
  EXPECT_NE(thrown<DataError>([&] {
              maximum_likelihood(detector, bare);
            }).find("a charge above 0"),
            std::string::npos);
  o.dark = 0.1;
  const auto noisy = make_detector(o);
  EXPECT_FALSE(uses_charges(noisy));
  const auto dark = draw_events(noisy, 2, 0, 50);
  auto same = dark;
  same.charges = torch::Tensor();
  EXPECT_TRUE(torch::equal(maximum_likelihood(noisy, dark).vertices,
                           maximum_likelihood(noisy, same).vertices));
}

}  // namespace
}  // namespace propagator::physics
