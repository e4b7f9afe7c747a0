#include <cmath>

#include "propagator/core/error.h"
#include "propagator/physics/detector/event_fit.h"
#include "testing.h"

// Flat arrays of sensors.

namespace propagator::physics {
namespace {

using propagator::testing::near;
using propagator::testing::thrown;

DetectorOptions plane(PlaneSide side = PlaneSide::kAbove) {
  DetectorOptions o;
  o.placement = Placement::kPlane;
  o.columns = 6, o.rows = 4;
  o.spacing = 2, o.height = 9, o.plane_z = -3;
  o.side = side;
  return o;
}

TEST(PhysicsPlane, SensorsAreTheMiddlesOfSquares) {
  const auto detector = make_detector(plane());
  ASSERT_EQ(detector.sensors(), 24);
  const auto& p = detector.positions();
  for (int64_t n = 0; n < 24; ++n) {
    EXPECT_EQ(p[n][0].item<double>(), -5 + 2.0 * static_cast<double>(n % 6));
    EXPECT_EQ(p[n][1].item<double>(), -3 + 2.0 * static_cast<double>(n / 6));
    EXPECT_EQ(p[n][2].item<double>(), -3);
  }
  EXPECT_EQ(detector.volume().half(), (Point{6, 4, 4.5}));
  EXPECT_EQ(detector.volume().centre(), (Point{0, 0, 1.5}));
  EXPECT_EQ(make_detector(plane(PlaneSide::kBelow)).volume().centre(),
            (Point{0, 0, -7.5}));
  EXPECT_EQ(make_detector(plane(PlaneSide::kAuto)).volume().centre(),
            (Point{0, 0, 1.5}));
}

TEST(PhysicsPlane, TimesAreTravelTimesOnBothSidesAlike) {
  // An event below, mirrored, is the event above.
  const auto above = make_detector(plane()),
             below = make_detector(plane(PlaneSide::kBelow));
  const auto events = draw_events(above, 3, 0, 200);
  EXPECT_TRUE(above.volume().inside(events.vertices).all().item<bool>());
  const auto distance =
      (events.vertices.unsqueeze(1) - above.positions()).norm(2, 2);
  EXPECT_TRUE(near(events.times, distance * (1.5 / 0.299792458) * events.hits,
                   testing::kFloat64));
  EXPECT_TRUE(below.volume()
                  .inside(draw_events(below, 3, 0, 200).vertices)
                  .all()
                  .item<bool>());
}

TEST(PhysicsPlane, FitsFindTheEventAndNotItsMirrorImage) {
  const auto mirror = torch::tensor({1.0, 1.0, -1.0}, torch::kFloat64);
  const auto lift = torch::tensor({0.0, 0.0, -6.0}, torch::kFloat64);
  for (const bool known : {true, false}) {
    auto o = plane();
    o.trigger = 5;
    o.event_time = known ? EventTime::kKnown : EventTime::kUnknown;
    const auto above = make_detector(o);
    o.side = PlaneSide::kBelow;
    const auto below = make_detector(o);
    const auto events = draw_events(above, 5, 0, 400);
    const auto error = [&](const Detector& detector,
                           const torch::Tensor& truth) {
      return (least_squares(detector, events).vertices - truth).norm(2, 1);
    };
    // Exact but for events with two answers on the same side.
    const auto right = error(above, events.vertices) < 1e-5;
    EXPECT_GT(testing::mean_of(right), 0.97) << known;
    // The same hits in a volume below are of the mirror image.
    const auto image = events.vertices * mirror + lift;
    EXPECT_GT(testing::mean_of(error(below, image) < 1e-5), 0.97) << known;
    EXPECT_TRUE(below.volume().inside(image).all().item<bool>());
  }
}

TEST(PhysicsPlane, TheLikelihoodIsTheSameOnBothSides) {
  auto o = plane();
  o.jitter = 1, o.charge = true;
  const auto detector = make_detector(o);
  const auto events = draw_events(detector, 5, 0, 10);
  auto image = events.vertices.clone();
  image.select(1, 2).mul_(-1).sub_(6);
  const auto zero = torch::zeros({10}, torch::kFloat64);
  EXPECT_TRUE(
      near(log_likelihood(detector, events, image, zero).values,
           log_likelihood(detector, events, events.vertices, zero).values,
           {1e-10, 1e-10}));
  const auto fit = maximum_likelihood(detector, events);
  EXPECT_TRUE(detector.volume().inside(fit.vertices).all().item<bool>());
}

TEST(PhysicsPlane, AFlatFileOfSensorsNeedsASide) {
  DetectorOptions o;
  o.placement = Placement::kFile;
  o.height = 4;
  const auto flat = make_detector(plane()).positions();
  EXPECT_NE(
      thrown<DataError>([&] { make_detector(o, flat); }).find("all at z = -3"),
      std::string::npos);
  o.side = PlaneSide::kBelow;
  const auto detector = make_detector(o, flat);
  EXPECT_EQ(detector.volume().centre(), (Point{0, 0, -5}));
  EXPECT_EQ(detector.volume().half(), (Point{5, 3, 2}));
  // On a wall, at one y.
  auto wall = flat.clone();
  wall.select(1, 2).copy_(flat.select(1, 1));
  wall.select(1, 1).fill_(1);
  EXPECT_NE(
      thrown<DataError>([&] { make_detector(o, wall); }).find("all at y = 1"),
      std::string::npos);
}

TEST(PhysicsPlane, TooFewSensorsForTheTriggerAreRefused) {
  auto o = plane();
  o.columns = o.rows = 2;
  o.trigger = 5;
  EXPECT_NE(thrown<ConfigError>([&] { make_detector(o); }).find("at most 4"),
            std::string::npos);
}

}  // namespace
}  // namespace propagator::physics
