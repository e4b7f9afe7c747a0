#include <torch/utils.h>

#include <cmath>
#include <numbers>

#include "propagator/core/error.h"
#include "propagator/pde/geometry/ball.h"
#include "propagator/pde/geometry/cuboid.h"
#include "propagator/pde/geometry/level_set.h"
#include "propagator/pde/geometry/polygon.h"
#include "testing.h"

namespace propagator::pde {
namespace {

using std::numbers::pi;
using testing::near;
using torch::Tensor;

Box cube(int64_t dimensions, double low, double high) {
  const auto n = static_cast<size_t>(dimensions);
  return {std::vector<double>(n, low), std::vector<double>(n, high)};
}

Tensor sobol(const Box& box, int64_t count) {
  return sample_count(box, Sampling::kSobol, count, 0, "test");
}

// An ellipse of half-axes 0.8 and 0.5, and an ellipsoid.
LevelSet ellipsoid(int64_t dimensions) {
  const auto halves =
      torch::tensor({0.8, 0.5, 0.7}, torch::kFloat64).slice(0, 0, dimensions);
  return {[=](const Tensor& p) { return (p / halves).square().sum(1) - 1; },
          [=](const Tensor& p) { return 2 * p / halves.square(); },
          cube(dimensions, -1, 1)};
}

Polygon star() {
  return Polygon({{0.9, 0}, {0.2, 0.1}, {0, 0.8}, {-0.3, 0.1}, {-0.2, -0.7}});
}

struct Known {
  const char* name;
  std::shared_ptr<const Shape> shape;
  int64_t dimensions;
  double inside, edge;  // area and length, or volume and area
};

// The ellipse's length and the ellipsoid's area: by Simpson's rule elsewhere.
std::vector<Known> known_shapes() {
  const double sides = std::hypot(0.7, 0.1) + std::hypot(0.2, 0.7) +
                       std::hypot(0.3, 0.7) + std::hypot(0.1, 0.8) +
                       std::hypot(1.1, 0.7);
  return {
      {"disk", std::make_shared<Ball>(std::vector{0.1, -0.2}, 0.7), 2,
       pi * 0.49, 1.4 * pi},
      {"ball", std::make_shared<Ball>(std::vector{0.1, 0.0, -0.2}, 0.7), 3,
       4 * pi / 3 * 0.343, 4 * pi * 0.49},
      {"rectangle", std::make_shared<Cuboid>(Box{{-0.5, -0.3}, {0.7, 0.9}}), 2,
       1.44, 4.8},
      {"cuboid",
       std::make_shared<Cuboid>(Box{{-0.5, -0.3, -0.9}, {0.7, 0.9, 0.1}}), 3,
       1.44, 2 * (1.44 + 1.2 + 1.2)},
      {"star", std::make_shared<Polygon>(star()), 2, 0.675, sides},
      {"ellipse", std::make_shared<LevelSet>(ellipsoid(2)), 2, pi * 0.4,
       4.1386276},
      {"ellipsoid", std::make_shared<LevelSet>(ellipsoid(3)), 3,
       4 * pi / 3 * 0.28, 5.5545643},
  };
}

class PdeShapes : public ::testing::TestWithParam<size_t> {
 protected:
  const Known known = known_shapes()[GetParam()];
  const Shape& shape = *known.shape;
  const EdgePoints edge =
      shape.edge(sobol(cube(known.dimensions - 1, 0, 1), 1 << 13));
};

TEST_P(PdeShapes, HoldWhatTheirFormulaSays) {
  const auto box = cube(known.dimensions, -1, 1);
  const double share = (shape.distance(sobol(box, 1 << 16)) < 0)
                           .to(torch::kFloat64)
                           .mean()
                           .item<double>();
  const double whole = std::pow(2, known.dimensions);
  EXPECT_NEAR(share * whole, known.inside, 4e-3 * known.inside) << known.name;
  const double tolerance = std::string(known.name) == "ellipsoid" ? 5e-3 : 1e-4;
  EXPECT_NEAR(shape.edge_size(), known.edge, tolerance * known.edge)
      << known.name;
}

TEST_P(PdeShapes, EdgesLieOnTheShapeWithUnitNormalsOutwards) {
  const auto none = torch::zeros({edge.points.size(0)}, torch::kFloat64);
  EXPECT_TRUE(near(shape.distance(edge.points), none, {0, 1e-12}));
  EXPECT_TRUE(near(edge.normals.square().sum(1), none + 1, {0, 1e-12}));
  // The distance grows outwards as the distance does.
  constexpr double kStep = 1e-6;
  const auto out = shape.distance(edge.points + kStep * edge.normals);
  const auto in = shape.distance(edge.points - kStep * edge.normals);
  EXPECT_TRUE(near(out, none + kStep, {0, 1e-3 * kStep})) << known.name;
  EXPECT_TRUE(near(in, none - kStep, {0, 1e-3 * kStep})) << known.name;
}

TEST_P(PdeShapes, EdgesAreSampledEvenly) {
  // ∮ x·n = D · volume, and the fluxes of constant fields vanish.
  const double volume =
      (edge.points * edge.normals).sum(1).mean().item<double>() *
      shape.edge_size() / static_cast<double>(known.dimensions);
  EXPECT_NEAR(volume, known.inside, 6e-3 * known.inside) << known.name;
  EXPECT_LT(edge.normals.mean(0).abs().max().item<double>(), 6e-3)
      << known.name;
}

INSTANTIATE_TEST_SUITE_P(All, PdeShapes, ::testing::Range<size_t>(0, 7));

TEST(PdePolygon, OrientationDoesNotMatter) {
  const std::vector<std::pair<double, double>> corners{
      {0, 0}, {1, 0}, {1, 0.5}, {0.5, 0.5}, {0.5, 1}, {0, 1}};
  const Polygon there(corners);
  const Polygon back({corners.rbegin(), corners.rend()});
  auto closed = corners;
  closed.push_back(corners.front());
  const auto points = sobol(cube(2, -0.5, 1.5), 4096);
  EXPECT_TRUE(
      torch::equal(there.distance(points) < 0, back.distance(points) < 0));
  EXPECT_TRUE(
      near(back.distance(points), there.distance(points), testing::kFloat64));
  EXPECT_TRUE(
      torch::equal(Polygon(closed).distance(points), there.distance(points)));
  const auto edge = back.edge(sobol(cube(1, 0, 1), 1024));
  EXPECT_TRUE((there.distance(edge.points + 1e-3 * edge.normals) > 0)
                  .all()
                  .item<bool>());
}

TEST(PdePolygon, FaultsAreSaid) {
  const auto fault = [](std::vector<std::pair<double, double>> corners) {
    try {
      Polygon polygon(std::move(corners));
    } catch (const UsageError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_NE(fault({{0, 0}, {1, 0}}).find("2 corners, and it takes three"),
            std::string::npos);
  EXPECT_NE(fault({{0, 0}, {1, 1}, {1, 0}, {0, 1}})
                .find("sides 1 and 3 of the polygon cross"),
            std::string::npos);
  // A corner on another side, a corner twice, a side that folds back.
  EXPECT_NE(fault({{0, 0}, {2, 0}, {2, 1}, {1, 0}, {0, 1}}).find("touch"),
            std::string::npos);
  EXPECT_NE(
      fault({{0, 0}, {1, 0}, {1, 0}, {0, 1}}).find("the same as the next"),
      std::string::npos);
  EXPECT_NE(fault({{0, 0}, {1, 0}, {0.5, 0}}).find("back on itself"),
            std::string::npos);
  EXPECT_EQ(fault({{0, 0}, {1, 0}, {2, 0}, {0, 1}}), "");  // a flat corner
}

TEST(PdeLevelSet, IsFoundWhereverItIsAndNowhereElse) {
  // Two disks apart, of which one goes on beyond the box.
  const auto centres = torch::tensor({-0.6, 0.9}, torch::kFloat64);
  const auto apart = [=](const Tensor& p) {
    return torch::stack({p.select(1, 0).unsqueeze(1) - centres,
                         p.select(1, 1).unsqueeze(1).expand({-1, 2})},
                        2);  // (N, 2, 2)
  };
  const LevelSet two(
      [=](const Tensor& p) {
        return (apart(p).square().sum(2) - 0.09).amin(1);
      },
      [=](const Tensor& p) {
        const auto d = apart(p);
        const auto nearer = d.square().sum(2).argmin(1);
        return 2 * torch::where((nearer == 0).unsqueeze(1), d.select(1, 0),
                                d.select(1, 1));
      },
      cube(2, -1, 1));
  const double cut = 2 * std::acos(0.1 / 0.3);  // angle beyond x = 1
  EXPECT_NEAR(two.edge_size(), 0.3 * (4 * pi - cut), 1e-3);
  const LevelSet none([](const Tensor& p) { return p.square().sum(1) + 1; },
                      [](const Tensor& p) { return 2 * p; }, cube(3, -1, 1));
  EXPECT_EQ(none.edge_size(), 0);
  EXPECT_TRUE(torch::isnan(none.edge(sobol(cube(2, 0, 1), 8)).points)
                  .all()
                  .item<bool>());
}

}  // namespace
}  // namespace propagator::pde
