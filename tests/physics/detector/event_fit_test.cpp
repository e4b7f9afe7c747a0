#include "propagator/physics/detector/event_fit.h"

#include <ATen/Parallel.h>

#include <cmath>
#include <limits>

#include "propagator/core/error.h"
#include "testing.h"

namespace propagator::physics {
namespace {

using propagator::testing::mean_of;
using propagator::testing::near;
using propagator::testing::random;
using propagator::testing::thrown;

torch::Tensor errors(const EventFit& fit, const Events& events) {
  return (fit.vertices - events.vertices).norm(2, 1);
}

Detector detector_of(double jitter, double dark, EventTime time,
                     Placement placement = Placement::kCorners) {
  DetectorOptions o;
  o.placement = placement;
  o.jitter = jitter, o.dark = dark, o.event_time = time;
  o.per_side = 5, o.sensors = 60;
  return make_detector(o);
}

// Events with a vertex away from the walls.
Events central(const Events& events, double within) {
  const auto keep =
      std::get<0>(events.vertices.abs().max(1)).lt(within).nonzero().squeeze(1);
  return {events.vertices.index_select(0, keep),
          events.offsets.index_select(0, keep),
          events.times.index_select(0, keep),
          events.hits.index_select(0, keep)};
}

TEST(PhysicsEventFit, LeastSquaresIsExactWithoutJitter) {
  for (const auto time : {EventTime::kKnown, EventTime::kUnknown}) {
    const auto detector = detector_of(0, 0, time);
    const auto events = draw_events(detector, 1, 0, 4000);
    const auto fit = least_squares(detector, events);
    EXPECT_TRUE(fit.converged.all().item<bool>());
    // Every answer fits the times, also one of two that do.
    EXPECT_LT(fit.cost.max().item<double>(), 1e-16);
    const auto error = errors(fit, events);
    EXPECT_LT(error.median().item<double>(), 1e-13);
    const auto sure = fit.ambiguous.logical_not();
    EXPECT_LT(error.masked_select(sure).max().item<double>(), 1e-8);
    EXPECT_LT((fit.offsets - events.offsets)
                  .masked_select(sure)
                  .abs()
                  .max()
                  .item<double>(),
              1e-8);
    // Only four hits leave two solutions.
    EXPECT_TRUE((events.hits.sum(1) == 4).logical_or(sure).all().item<bool>());
    EXPECT_GT(mean_of(fit.ambiguous), 0.005);
    EXPECT_LT(mean_of(fit.ambiguous), 0.04);
  }
}

TEST(PhysicsEventFit, ThreeHitsAreFittedToo) {
  DetectorOptions o;
  o.trigger = 3;
  const auto detector = make_detector(o);
  const auto events = draw_events(detector, 1, 0, 2000);
  const auto fit = least_squares(detector, events);
  const auto three = events.hits.sum(1) == 3;
  EXPECT_GT(three.sum().item<int64_t>(), 100);
  EXPECT_LT(fit.cost.max().item<double>(), 1e-16);
  const auto sure = fit.ambiguous.logical_not();
  EXPECT_LT(errors(fit, events).masked_select(sure).max().item<double>(), 1e-8);
}

TEST(PhysicsEventFit, MirrorImagesAreAmbiguous) {
  // The hit corners lie in the plane x = y: exchanging x and y changes nothing.
  const auto detector = detector_of(0, 0, EventTime::kKnown);
  const auto vertex = torch::tensor({{1., 2., 0.5}}, torch::kFloat64);
  const auto mirror = torch::tensor({{2., 1., 0.5}}, torch::kFloat64);
  const auto& s = detector.positions();
  Events events;
  events.hits = (s.select(1, 0) == s.select(1, 1)).unsqueeze(0);
  events.times = (vertex - s).norm(2, 1).unsqueeze(0) / detector.light_speed();
  for (const auto& fit : {least_squares(detector, events),
                          maximum_likelihood(detector, events)}) {
    EXPECT_TRUE(fit.ambiguous[0].item<bool>());
    const double error =
        std::min((fit.vertices - vertex).norm().item<double>(),
                 (fit.vertices - mirror).norm().item<double>());
    EXPECT_LT(error, 1e-4);
  }
}

TEST(PhysicsEventFit, MaximumLikelihoodWithoutJitterIsNearlyExact) {
  const auto detector = detector_of(0, 0, EventTime::kKnown);
  const auto events = draw_events(detector, 1, 0, 1000);
  const auto fit = maximum_likelihood(detector, events);
  EXPECT_LT(errors(fit, events).median().item<double>(), 1e-5);
}

TEST(PhysicsEventFit, DensityIntegratesToOne) {
  for (const double dark : {0.0, 0.5}) {
    DetectorOptions o;
    o.jitter = 1.5, o.dark = dark, o.window = 40;
    const auto detector = make_detector(o);
    // Sensor 3 hit at every time from -20 to 80 ns, the others silent; and no
    // hit at all. The others' silence is a factor of both.
    constexpr int64_t kTimes = 100000;
    const double step = 100.0 / kTimes;
    Events events;
    events.hits = torch::zeros({kTimes + 1, 8}, torch::kBool);
    events.hits.slice(0, 0, kTimes).select(1, 3).fill_(true);
    events.times = torch::zeros({kTimes + 1, 8}, torch::kFloat64);
    events.times.slice(0, 0, kTimes)
        .select(1, 3)
        .copy_((torch::arange(kTimes, torch::kFloat64) + 0.5) * step - 20);
    const auto at = torch::tensor({1., -2., 3.}, torch::kFloat64);
    const auto density =
        log_likelihood(detector, events, at.expand({kTimes + 1, 3}),
                       torch::zeros({kTimes + 1}, torch::kFloat64))
            .values.exp();
    const double silent = density[-1].item<double>();
    double others = 0;
    for (int64_t i = 0; i < 8; ++i) {
      const double d = (at - detector.positions()[i]).norm().item<double>();
      if (i != 3) others += detector.mean_light(d) + dark;
    }
    const double hit = density.slice(0, 0, kTimes).sum().item<double>() * step;
    EXPECT_NEAR((hit + silent) * std::exp(others), 1, 1e-6) << dark;
  }
}

TEST(PhysicsEventFit, DerivativesOfTheLikelihood) {
  for (const double dark : {0.0, 0.4}) {
    const auto detector = detector_of(1.3, dark, EventTime::kUnknown);
    constexpr int64_t kCount = 40;
    const auto events = draw_events(detector, 3, 0, kCount);
    // Near the truth and far from it, where densities underflow.
    for (const double far : {0.3, 4.0}) {
      const auto at = torch::cat(
          {(events.vertices + far * random({kCount, 3}, "at")).clamp(-5, 5),
           events.offsets.unsqueeze(1) + far * random({kCount, 1}, "time")},
          1);
      const auto evaluate = [&](const torch::Tensor& p) {
        return log_likelihood(detector, events, p.slice(1, 0, 3),
                              p.select(1, 3));
      };
      const auto exact = evaluate(at);
      for (int64_t k = 0; k < 4; ++k) {
        auto shift = torch::zeros({4}, torch::kFloat64);
        shift[k] = 1e-5;
        const auto up = evaluate(at + shift), down = evaluate(at - shift);
        EXPECT_TRUE(near((up.values - down.values) / 2e-5,
                         exact.gradients.select(1, k), {1e-6, 1e-5}));
        EXPECT_TRUE(near((up.gradients - down.gradients) / 2e-5,
                         exact.seconds.select(1, k), {1e-6, 1e-5}));
      }
    }
  }
}

// The Cramér–Rao bound of a vertex: the inverse of
//   Σ [ q/σ² + λ'² e^-λ / q ] u uᵀ,  times of hits and which sensors are hit.
torch::Tensor bound(const Detector& detector, const torch::Tensor& vertices) {
  const auto away = vertices.unsqueeze(1) - detector.positions();  // (N, S, 3)
  const auto d = away.norm(2, 2);
  const auto u = away / d.unsqueeze(2);
  const auto lambda = detector.light_at_unit() / d.square();
  const auto q = 1 - torch::exp(-lambda);
  const double sigma = detector.options().jitter * detector.light_speed();
  const auto weight =
      q / (sigma * sigma) + (2 * lambda / d).square() * torch::exp(-lambda) / q;
  const auto information = torch::einsum("ns,nsi,nsj->nij", {weight, u, u});
  return torch::inverse(information);
}

TEST(PhysicsEventFit, MaximumLikelihoodReachesTheBoundWithHonestPulls) {
  const auto detector = detector_of(1, 0, EventTime::kKnown, Placement::kFaces);
  const auto events = central(draw_events(detector, 2, 0, 1500), 4.5);
  const auto ml = maximum_likelihood(detector, events);
  EXPECT_TRUE(ml.converged.all().item<bool>());
  const auto error = ml.vertices - events.vertices;
  const auto trace = bound(detector, events.vertices).diagonal(0, 1, 2).sum(1);
  const double ratio = mean_of(error.square().sum(1)) / mean_of(trace);
  // About 1100 events: 2.5 % of statistics.
  EXPECT_NEAR(ratio, 1, 0.1);
  const auto pull = error / ml.covariances.diagonal(0, 1, 2).sqrt();
  const double count = static_cast<double>(pull.numel());
  EXPECT_NEAR(mean_of(pull), 0, 5 / std::sqrt(count));
  EXPECT_NEAR(std::sqrt(mean_of(pull.square())), 1, 5 / std::sqrt(2 * count));
  const auto ls = least_squares(detector, events);
  EXPECT_LT(mean_of(error.square().sum(1)),
            1.005 * mean_of(errors(ls, events).square()));
}

TEST(PhysicsEventFit, MaximumLikelihoodIsNotWorseThanLeastSquares) {
  const auto compare = [](double dark, EventTime time) {
    const auto detector = detector_of(1, dark, time);
    const auto events = draw_events(detector, 4, 0, 2000);
    return mean_of(errors(maximum_likelihood(detector, events), events)) /
           mean_of(errors(least_squares(detector, events), events));
  };
  // With the time known the light adds little: equal within 3 %.
  EXPECT_LT(compare(0, EventTime::kKnown), 1.03);
  EXPECT_LT(compare(0, EventTime::kUnknown), 0.9);
  EXPECT_LT(compare(0.1, EventTime::kKnown), 0.6);
}

TEST(PhysicsEventFit, NoPointThatWasTriedIsMoreLikely) {
  for (const auto time : {EventTime::kKnown, EventTime::kUnknown}) {
    const auto detector = detector_of(1, 0, time);
    const auto events = draw_events(detector, 6, 0, 1000);
    const auto truth =
        log_likelihood(detector, events, events.vertices, events.offsets);
    const auto fit = maximum_likelihood(detector, events);
    EXPECT_TRUE((fit.cost <= -truth.values).all().item<bool>());
    EXPECT_TRUE(near(
        -log_likelihood(detector, events, fit.vertices, fit.offsets).values,
        fit.cost, {1e-12, 1e-12}));
  }
}

TEST(PhysicsEventFit, WallsHoldWhatRunsAgainstThem) {
  for (const auto placement : {Placement::kCorners, Placement::kCylinder}) {
    const auto detector = detector_of(4, 0, EventTime::kKnown, placement);
    const auto events = draw_events(detector, 6, 0, 300);
    for (const bool likely : {false, true}) {
      const auto fit = likely ? maximum_likelihood(detector, events)
                              : least_squares(detector, events);
      EXPECT_TRUE(detector.volume().inside(fit.vertices).all().item<bool>());
      EXPECT_TRUE(fit.converged.all().item<bool>());
      if (!likely) continue;
      const auto slope =
          log_likelihood(detector, events, fit.vertices, fit.offsets)
              .gradients.slice(1, 0, 3)
              .contiguous();
      int64_t on_walls = 0;
      for (int64_t n = 0; n < 300; ++n) {
        Point at, g;
        for (int k = 0; k < 3; ++k) {
          at[k] = fit.vertices[n][k].item<double>();
          g[k] = slope[n][k].item<double>();
        }
        std::array<Point, 3> walls;
        const int count = detector.volume().walls(at, walls);
        on_walls += count > 0;
        for (int w = 0; w < count; ++w) {
          double out = 0;
          for (int k = 0; k < 3; ++k) out += g[k] * walls[w][k];
          EXPECT_GT(out, -1e-5);
          for (int k = 0; k < 3; ++k) g[k] -= out * walls[w][k];
        }
        EXPECT_LT(std::hypot(g[0], g[1], g[2]), 1e-5) << n;
      }
      EXPECT_GT(on_walls, 10);
    }
  }
}

TEST(PhysicsEventFit, ThreadsDoNotChangeTheAnswer) {
  const auto detector = detector_of(1, 0.1, EventTime::kUnknown);
  const auto events = draw_events(detector, 6, 0, 200);
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  const auto one = maximum_likelihood(detector, events);
  at::set_num_threads(3);
  const auto three = maximum_likelihood(detector, events);
  at::set_num_threads(threads);
  EXPECT_TRUE(torch::equal(one.vertices, three.vertices));
  EXPECT_TRUE(torch::equal(one.cost, three.cost));
}

TEST(PhysicsEventFit, BadEventsAreErrors) {
  const auto detector = detector_of(1, 0, EventTime::kUnknown);
  const auto good = draw_events(detector, 6, 0, 5);
  const auto message = [&](const Events& events) {
    return thrown<DataError>([&] { least_squares(detector, events); });
  };
  auto bad = good;
  bad.times = good.times.clone();
  const int64_t hit = good.hits[3].nonzero()[1].item<int64_t>();
  bad.times[3][hit] = std::numeric_limits<double>::quiet_NaN();
  EXPECT_NE(message(bad).find("event 3, sensor " + std::to_string(hit)),
            std::string::npos);
  EXPECT_THROW(maximum_likelihood(detector, bad), DataError);
  // A NaN where nothing was hit is nobody's business.
  bad.hits = good.hits.clone();
  bad.hits[3].fill_(true);
  bad.hits[3][hit] = false;
  bad.times[3].nan_to_num_(10);
  EXPECT_NO_THROW(least_squares(detector, bad));
  bad.hits[3].fill_(false);
  EXPECT_NE(message(bad).find("event 3: expected at least 4 hits"),
            std::string::npos);
  bad = good;
  bad.times = good.times.slice(1, 0, 7);
  EXPECT_NE(thrown<UsageError>([&] {
              least_squares(detector, bad);
            }).find("(N, 8), got (5, 7)"),
            std::string::npos);
  bad = good;
  bad.hits = good.hits.to(torch::kFloat64);
  EXPECT_THROW(maximum_likelihood(detector, bad), UsageError);
  EXPECT_THROW(maximum_likelihood(detector, Events{}), UsageError);
  EXPECT_THROW(
      log_likelihood(detector, good, good.vertices.slice(0, 1), good.offsets),
      UsageError);
  EXPECT_THROW(least_squares(detector, good, {.starts = 0}), UsageError);
  EXPECT_THROW(least_squares(detector, good, {.tolerance = 0}), UsageError);
  EXPECT_EQ(least_squares(detector, draw_events(detector, 6, 0, 0)).size(), 0);
}

}  // namespace
}  // namespace propagator::physics
