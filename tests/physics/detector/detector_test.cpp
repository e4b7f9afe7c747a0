#include "propagator/physics/detector/detector.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numbers>

#include "propagator/core/error.h"
#include "propagator/physics/detector/sensor_placement.h"
#include "testing.h"

namespace propagator::physics {
namespace {

using propagator::testing::random;
using propagator::testing::thrown;

std::vector<Point> points_of(const torch::Tensor& positions) {
  const auto* p = positions.data_ptr<double>();
  std::vector<Point> points;
  for (int64_t i = 0; i < positions.size(0); ++i) {
    points.push_back({p[3 * i], p[3 * i + 1], p[3 * i + 2]});
  }
  return points;
}

double apart(const Point& a, const Point& b) {
  return std::hypot(a[0] - b[0], a[1] - b[1], a[2] - b[2]);
}

Detector from_positions(const torch::Tensor& positions) {
  DetectorOptions o;
  o.placement = Placement::kFile;
  return make_detector(o, positions);
}

TEST(PhysicsDetector, LightAndTimeFollowTheirFormulas) {
  DetectorOptions o;
  const auto stated = make_detector(o);
  EXPECT_NEAR(stated.mean_light(std::sqrt(75.0)), 0.8, 1e-15);
  EXPECT_NEAR(stated.mean_light(2), 15, 1e-13);
  EXPECT_NEAR(stated.travel_time(1), 1.5 / 0.299792458, 1e-14);
  EXPECT_NEAR(stated.light_speed() * stated.travel_time(7), 7, 1e-14);
  o.efficiency = Efficiency::kPublished;
  o.light_yield = 3;
  EXPECT_NEAR(make_detector(o).mean_light(std::sqrt(75.0)), 0.6, 1e-15);
}

TEST(PhysicsDetector, CornersOfTheCube) {
  const auto detector = make_detector({});
  auto points = points_of(detector.positions());
  ASSERT_EQ(points.size(), 8u);
  std::ranges::sort(points);
  EXPECT_EQ(std::ranges::adjacent_find(points), points.end());
  for (const auto& p : points) {
    for (const double x : p) EXPECT_EQ(std::abs(x), 5);
  }
}

TEST(PhysicsDetector, FacesHaveTheirSquares) {
  DetectorOptions o;
  o.placement = Placement::kFaces;
  o.size = 6, o.per_side = 3;
  std::map<std::pair<int, double>, int> of_face;
  for (const auto& p : points_of(make_detector(o).positions())) {
    int on_wall = 0;
    for (int k = 0; k < 3; ++k) {
      if (std::abs(p[k]) == 3) {
        ++on_wall;
        ++of_face[{k, p[k]}];
      } else {  // middles of thirds
        EXPECT_NEAR(std::abs(std::abs(p[k]) - 1), 1, 1e-14) << p[k];
      }
    }
    EXPECT_EQ(on_wall, 1);
  }
  EXPECT_EQ(of_face.size(), 6u);
  for (const auto& [face, count] : of_face) EXPECT_EQ(count, 9);
}

TEST(PhysicsDetector, CylinderIsCoveredEvenly) {
  DetectorOptions o;
  o.placement = Placement::kCylinder;
  const auto detector = make_detector(o);
  const auto points = points_of(detector.positions());
  ASSERT_EQ(points.size(), 300u);  // 8 rings of 25 and 50 on each cap
  std::map<double, int> rings;
  int inner = 0, caps = 0;
  for (const auto& p : points) {
    const double r = std::hypot(p[0], p[1]);
    if (std::abs(p[2]) == 5) {
      ++caps;
      EXPECT_LT(r, 5);
      inner += r < 5 / std::numbers::sqrt2;
    } else {
      EXPECT_NEAR(r, 5, 1e-14);
      ++rings[p[2]];
    }
  }
  EXPECT_EQ(caps, 100);
  EXPECT_EQ(inner, 50);  // half of a cap's area
  ASSERT_EQ(rings.size(), 8u);
  double z = -5 + 0.625;
  for (const auto& [height, count] : rings) {
    EXPECT_NEAR(height, z, 1e-14);
    EXPECT_EQ(count, 25);
    z += 1.25;
  }
  // No two sensors crowd and no place of the surface is far from all: the
  // spacing is √(471.2 m² / 300) = 1.253 m.
  double closest = 10, widest = 0;
  for (size_t i = 0; i < points.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      closest = std::min(closest, apart(points[i], points[j]));
    }
  }
  const auto place = random({2000, 3}, "surface");
  for (int64_t n = 0; n < 2000; ++n) {
    const double u = place[n][0].item<double>(), v = place[n][1].item<double>();
    const double angle = std::numbers::pi * u;
    const bool cap = n % 3 == 0;
    const double r = cap ? 5 * std::sqrt(std::abs(v)) : 5;
    const Point at{r * std::cos(angle), r * std::sin(angle),
                   cap ? std::copysign(5, v) : 5 * v};
    double nearest = 10;
    for (const auto& p : points) nearest = std::min(nearest, apart(p, at));
    widest = std::max(widest, nearest);
  }
  EXPECT_GT(closest, 0.4 * 1.253);
  EXPECT_LT(widest, 1.0 * 1.253);
}

TEST(PhysicsDetector, CylinderMakesAboutAsManyAsAsked) {
  for (const auto& [diameter, height] :
       {std::pair{10.0, 10.0}, {40.0, 8.0}, {5.0, 30.0}}) {
    for (const int64_t asked : {100, 500, 5000}) {
      const auto counts = cylinder_counts(diameter, height, asked);
      const auto made = cylinder_sensors(diameter, height, asked).size();
      EXPECT_EQ(static_cast<int64_t>(made), counts.total());
      EXPECT_NEAR(static_cast<double>(made) / static_cast<double>(asked), 1,
                  asked < 500 ? 0.2 : 0.05)
          << diameter << " " << height << " " << asked;
    }
  }
  EXPECT_EQ(cylinder_counts(1, 1, 4).total(), 5);  // a ring of 3, one a cap
}

TEST(PhysicsDetector, VolumeConfinesToTheNearestPoint) {
  const auto box = DetectorVolume::box({1, 0, 0}, {1, 2, 3});
  EXPECT_EQ(box.confine({5, -7, 1}), (Point{2, -2, 1}));
  EXPECT_TRUE(box.inside(Point{2, -2, 1}));
  EXPECT_FALSE(box.inside(Point{2.001, 0, 0}));
  std::array<Point, 3> normals;
  ASSERT_EQ(box.walls({2, -2, 1}, normals), 2);
  EXPECT_EQ(normals[0], (Point{1, 0, 0}));
  EXPECT_EQ(normals[1], (Point{0, -1, 0}));
  const auto round = DetectorVolume::cylinder(5, 2);
  const auto at = round.confine({6, 8, -3});
  EXPECT_NEAR(apart(at, {3, 4, -2}), 0, 1e-14);
  EXPECT_EQ(round.walls(at, normals), 2);
  EXPECT_TRUE(round.inside(at));
  EXPECT_FALSE(round.inside(Point{4, 4, 0}));
  EXPECT_EQ(round.confine({1, 1, 1}), (Point{1, 1, 1}));
  EXPECT_EQ(round.walls({1, 1, 1}, normals), 0);
  const auto in = round.inside(torch::tensor({{0., 0., 0.}, {4., 4., 0.}}));
  EXPECT_TRUE(in[0].item<bool>());
  EXPECT_FALSE(in[1].item<bool>());
  EXPECT_THROW(round.inside(torch::zeros({2, 2})), UsageError);
}

TEST(PhysicsDetector, GivenPositionsAndTheirBox) {
  const auto positions =
      random({20, 3}, "sensors") * torch::tensor({3., 5., 7.}, torch::kFloat64);
  const auto detector = from_positions(positions);
  EXPECT_TRUE(torch::equal(detector.positions(), positions));
  EXPECT_TRUE(detector.volume().inside(positions).all().item<bool>());
  const auto width =
      std::get<0>(positions.max(0)) - std::get<0>(positions.min(0));
  for (int k = 0; k < 3; ++k) {
    EXPECT_NEAR(2 * detector.volume().half()[k], width[k].item<double>(),
                1e-14);
  }
}

TEST(PhysicsDetector, BadPositionsAreErrors) {
  const auto good = random({6, 3}, "sensors");
  const auto message = [](const torch::Tensor& positions) {
    return thrown<DataError>([&] { from_positions(positions); });
  };
  EXPECT_NE(message(torch::zeros({6, 2})).find("(S, 3), got (6, 2)"),
            std::string::npos);
  EXPECT_NE(message(torch::zeros({6})).find("got (6)"), std::string::npos);
  EXPECT_NE(message(good.slice(0, 0, 3)).find("at least 4 sensors"),
            std::string::npos);
  auto bad = good.clone();
  bad[2][1] = std::numeric_limits<double>::quiet_NaN();
  EXPECT_NE(message(bad).find("sensor 2: expected a finite"),
            std::string::npos);
  bad = good.clone();
  bad[4] = bad[1];
  EXPECT_NE(message(bad).find("got 1 and 4 both"), std::string::npos);
  bad = good.clone();
  bad.select(1, 2).fill_(0.5);
  EXPECT_NE(message(bad).find("all at z = 0.5"), std::string::npos);
}

TEST(PhysicsDetector, BadOptionsAreErrors) {
  DetectorOptions o;
  o.trigger = 9;
  EXPECT_NE(thrown<ConfigError>([&] { make_detector(o); }).find("at most 8"),
            std::string::npos);
  o.placement = Placement::kFaces;
  EXPECT_NO_THROW(make_detector(o));
  o.per_side = 1;
  EXPECT_THROW(make_detector(o), ConfigError);
  o.placement = Placement::kFile;
  EXPECT_THROW(make_detector(o), UsageError);
  EXPECT_THROW(make_detector(DetectorOptions{}, torch::zeros({8, 3})),
               UsageError);

  config::Schema schema;
  schema.section("detector", o);
  for (const char* text :
       {"{jitter: -1}", "{placement: ring}", "{index: 0.5}", "{window: 0}",
        "{dark: -0.1}", "{efficiency: 2}", "{event_time: maybe}"}) {
    auto document = config::Document::from_text(
        fmt::format("detector: {}", text), "test.yaml");
    EXPECT_THROW(document.apply_to(schema), ConfigError) << text;
  }
}

}  // namespace
}  // namespace propagator::physics
