#include "propagator/physics/detector/light_events.h"

#include <ATen/Parallel.h>

#include <array>
#include <bit>
#include <cmath>
#include <numbers>

#include "propagator/core/error.h"
#include "testing.h"

namespace propagator::physics {
namespace {

using propagator::testing::kFloat64;
using propagator::testing::mean_of;
using propagator::testing::near;
using propagator::testing::square;
using propagator::testing::thrown;

// (N, S)
torch::Tensor distances(const Detector& detector, const Events& events) {
  return (events.vertices.unsqueeze(1) - detector.positions()).norm(2, 2);
}

TEST(PhysicsLightEvents, TimesAreTravelTimes) {
  const auto detector = make_detector({});
  const auto events = draw_events(detector, 3, 0, 500);
  const auto expected = distances(detector, events) * (1.5 / 0.299792458);
  EXPECT_TRUE(near(events.times, expected * events.hits, kFloat64));
  EXPECT_GE(events.hits.sum(1).min().item<int64_t>(), 4);
  EXPECT_TRUE(detector.volume().inside(events.vertices).all().item<bool>());
  EXPECT_EQ(events.offsets.abs().max().item<double>(), 0);
}

TEST(PhysicsLightEvents, SensorsFireWithTheirProbability) {
  for (const auto efficiency : {Efficiency::kStated, Efficiency::kPublished}) {
    DetectorOptions o;
    o.trigger = 0;
    o.efficiency = efficiency;
    const auto detector = make_detector(o);
    const auto events = draw_events(detector, 1, 0, 50000);
    EXPECT_EQ(events.drawn, 50000);
    const auto distance = distances(detector, events);
    const auto probability =
        -torch::expm1(-detector.light_at_unit() / distance.square());
    // Each shell of distances and each sensor: a sum of independent draws.
    const auto check = [&](const torch::Tensor& of) {
      const auto p = probability.masked_select(of);
      const double hits = events.hits.masked_select(of).sum().item<double>();
      const double spread = std::sqrt((p * (1 - p)).sum().item<double>());
      EXPECT_NEAR(hits, p.sum().item<double>(), 5 * spread);
    };
    for (double d = 2; d < 16; d += 2) {
      check((distance >= d).logical_and(distance < d + 2));
    }
    for (int64_t i = 0; i < 8; ++i) {
      auto one = torch::zeros({8}, torch::kBool);
      one[i] = true;
      check(one.expand({50000, 8}));
    }
  }
}

TEST(PhysicsLightEvents, VerticesAreUniformWithoutATrigger) {
  constexpr int64_t kCount = 64000;
  for (const auto placement : {Placement::kCorners, Placement::kCylinder}) {
    DetectorOptions o;
    o.placement = placement;
    o.trigger = 0, o.sensors = 10, o.size = 6, o.height = 8;
    const auto v = draw_events(make_detector(o), 2, 0, kCount).vertices;
    const auto x = v.select(1, 0), y = v.select(1, 1), z = v.select(1, 2);
    // Four parts of equal volume along each of three coordinates.
    auto a = x / 6 + 0.5, b = y / 6 + 0.5, c = z / 6 + 0.5;
    if (placement == Placement::kCylinder) {
      a = (x.square() + y.square()) / 9;
      b = torch::atan2(y, x) / (2 * std::numbers::pi) + 0.5;
      c = z / 8 + 0.5;
    }
    const auto part = [](const torch::Tensor& u) {
      return (u * 4).floor().to(torch::kLong);
    };
    const auto counts = torch::bincount(part(a) * 16 + part(b) * 4 + part(c));
    ASSERT_EQ(counts.size(0), 64);
    const double expected = kCount / 64.0;
    const double chi2 =
        ((counts.to(torch::kFloat64) - expected).square() / expected)
            .sum()
            .item<double>();
    EXPECT_NEAR(chi2, 63, 5 * std::sqrt(2 * 63.0));
  }
}

// P(≥ 4 hits) at one vertex, summed over all 256 patterns of hits.
double trigger_probability(const Detector& detector, const Point& at) {
  const auto* s = detector.positions().data_ptr<double>();
  std::array<double, 8> q;
  for (int i = 0; i < 8; ++i) {
    q[i] =
        1 - std::exp(-detector.light_at_unit() /
                     (square(at[0] - s[3 * i]) + square(at[1] - s[3 * i + 1]) +
                      square(at[2] - s[3 * i + 2])));
  }
  double sum = 0;
  for (unsigned pattern = 0; pattern < 256; ++pattern) {
    if (std::popcount(pattern) < 4) continue;
    double p = 1;
    for (int i = 0; i < 8; ++i) p *= pattern >> i & 1 ? q[i] : 1 - q[i];
    sum += p;
  }
  return sum;
}

TEST(PhysicsLightEvents, TriggerFractionOfTheCornerCube) {
  for (const auto efficiency : {Efficiency::kStated, Efficiency::kPublished}) {
    DetectorOptions o;
    o.efficiency = efficiency;
    const auto detector = make_detector(o);
    constexpr int kGrid = 12;  // of an octant; the others are alike
    double expected = 0;
    for (int k = 0; k < kGrid * kGrid * kGrid; ++k) {
      const auto middle = [](int i) { return 5 * (i + 0.5) / kGrid; };
      expected += trigger_probability(
          detector, {middle(k / kGrid / kGrid), middle(k / kGrid % kGrid),
                     middle(k % kGrid)});
    }
    expected /= kGrid * kGrid * kGrid;
    const auto events = draw_events(detector, 5, 0, 50000);
    const double spread = std::sqrt(expected * (1 - expected) /
                                    static_cast<double>(events.drawn));
    // The grid's own error is below 2e-4.
    EXPECT_NEAR(events.triggered(), expected, 5 * spread + 2e-4);
  }
}

TEST(PhysicsLightEvents, JitterIsGaussian) {
  DetectorOptions o;
  const auto exact = draw_events(make_detector(o), 4, 0, 20000);
  o.jitter = 1.7;
  const auto blurred = draw_events(make_detector(o), 4, 0, 20000);
  EXPECT_TRUE(torch::equal(exact.vertices, blurred.vertices));
  EXPECT_TRUE(torch::equal(exact.hits, blurred.hits));
  const auto z =
      ((blurred.times - exact.times) / 1.7).masked_select(exact.hits);
  const double count = static_cast<double>(z.numel());
  EXPECT_NEAR(mean_of(z), 0, 5 / std::sqrt(count));
  EXPECT_NEAR(mean_of(z.square()), 1, 5 * std::sqrt(2 / count));
  EXPECT_NEAR(mean_of(z.pow(4)), 3, 5 * std::sqrt(96 / count));
  const double beyond = std::erfc(2 / std::numbers::sqrt2);
  EXPECT_NEAR(mean_of(z.abs() > 2), beyond,
              5 * std::sqrt(beyond * (1 - beyond) / count));
}

TEST(PhysicsLightEvents, DarkHitsComeFirstOrAlone) {
  DetectorOptions o;
  o.trigger = 0;
  const auto lit = draw_events(make_detector(o), 4, 0, 20000);
  o.dark = 0.3, o.window = 60;
  const auto both = draw_events(make_detector(o), 4, 0, 20000);
  EXPECT_TRUE(torch::equal(lit.vertices, both.vertices));
  EXPECT_TRUE((both.hits >= lit.hits).all().item<bool>());
  EXPECT_TRUE(
      (both.times <= lit.times).masked_select(lit.hits).all().item<bool>());
  // A sensor without light: a dark hit with probability 1 - e^-0.3, its time
  // exponential on the window.
  const auto unlit = lit.hits.logical_not();
  const double p = 1 - std::exp(-0.3);
  const auto fired = both.hits.masked_select(unlit);
  EXPECT_NEAR(mean_of(fired), p,
              5 * std::sqrt(p * (1 - p) / static_cast<double>(fired.numel())));
  const auto alone = both.times.masked_select(unlit.logical_and(both.hits));
  EXPECT_GT(alone.min().item<double>(), 0);
  EXPECT_LT(alone.max().item<double>(), 60);
  const double early = (1 - std::exp(-0.15)) / p;
  EXPECT_NEAR(
      mean_of(alone < 30), early,
      5 * std::sqrt(early * (1 - early) / static_cast<double>(alone.numel())));
  // One with light at t: earlier with probability 1 - e^(-0.3 t/60).
  const auto t = lit.times.masked_select(lit.hits).clamp_max(60);
  const auto before = 1 - torch::exp(-0.3 * t / 60);
  const auto moved = (both.times < lit.times).masked_select(lit.hits);
  EXPECT_NEAR(moved.sum().item<double>(), before.sum().item<double>(),
              5 * std::sqrt((before * (1 - before)).sum().item<double>()));
}

TEST(PhysicsLightEvents, UnknownTimeShiftsAllHits) {
  DetectorOptions o;
  o.jitter = 1, o.dark = 0.1;
  const auto known = draw_events(make_detector(o), 4, 0, 20000);
  o.event_time = EventTime::kUnknown;
  const auto unknown = draw_events(make_detector(o), 4, 0, 20000);
  EXPECT_TRUE(torch::equal(known.vertices, unknown.vertices));
  EXPECT_TRUE(torch::equal(known.hits, unknown.hits));
  EXPECT_TRUE(near(unknown.times,
                   (known.times + unknown.offsets.unsqueeze(1)) * known.hits,
                   {1e-12, 1e-12}));
  EXPECT_GE(unknown.offsets.min().item<double>(), 0);
  EXPECT_LT(unknown.offsets.max().item<double>(), 100);
  EXPECT_NEAR(mean_of(unknown.offsets), 50, 5 * 100 / std::sqrt(12 * 20000.0));
}

TEST(PhysicsLightEvents, EventDoesNotDependOnItsNeighboursOrThreads) {
  DetectorOptions o;
  o.jitter = 1, o.dark = 0.1;
  o.event_time = EventTime::kUnknown;
  const auto detector = make_detector(o);
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  const auto one = draw_events(detector, 7, 0, 3000);
  at::set_num_threads(3);
  const auto three = draw_events(detector, 7, 0, 3000);
  const auto piece = draw_events(detector, 7, 2000, 700);
  at::set_num_threads(threads);
  EXPECT_EQ(one.drawn, three.drawn);
  for (const auto part :
       {&Events::vertices, &Events::offsets, &Events::times, &Events::hits}) {
    EXPECT_TRUE(torch::equal(one.*part, three.*part));
    EXPECT_TRUE(torch::equal((one.*part).slice(0, 2000, 2700), piece.*part));
  }
  EXPECT_FALSE(torch::equal(draw_events(detector, 8, 0, 10).vertices,
                            one.vertices.slice(0, 0, 10)));
  EXPECT_EQ(draw_events(detector, 7, 5, 0).size(), 0);
}

TEST(PhysicsLightEvents, NoTriggerIsAnErrorNotALoop) {
  DetectorOptions o;
  o.trigger = 8, o.light_yield = 1e-3;
  const auto detector = make_detector(o);
  const auto message =
      thrown<NumericalError>([&] { draw_events(detector, 0, 0, 100); });
  EXPECT_NE(message.find("expected events with 8 hits"), std::string::npos);
  EXPECT_THROW(draw_events(detector, 0, -1, 2), UsageError);
}

}  // namespace
}  // namespace propagator::physics
