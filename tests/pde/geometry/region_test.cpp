#include "propagator/pde/geometry/region.h"

#include <torch/utils.h>

#include <numbers>

#include "propagator/pde/geometry/ball.h"
#include "testing.h"

namespace propagator::pde {
namespace {

using std::numbers::pi;
using testing::near;
using torch::Tensor;
using Kind = Combination::Kind;

const Box kSquare{{-1, -1}, {1, 1}};

Combination leaf(int64_t shape) { return {Kind::kShape, shape, {}}; }
Combination of(Kind kind, const Combination& a, const Combination& b) {
  return {kind, 0, {a, b}};
}

Region::Named disk(double x, double y, double radius) {
  return {"disk", std::make_shared<Ball>(std::vector{x, y}, radius)};
}
Region::Named rectangle(double x0, double x1, double y0, double y1) {
  return {"box", std::make_shared<Cuboid>(Box{{x0, y0}, {x1, y1}})};
}

Region annulus(double hole_x = 0) {
  return {kSquare,
          {disk(0, 0, 0.9), disk(hole_x, 0, 0.3)},
          of(Kind::kDifference, leaf(0), leaf(1))};
}

Tensor unit(int64_t count) {
  return sample_count({{0}, {1}}, Sampling::kSobol, count, 0, "test");
}
Tensor in_square(int64_t count) {
  return sample_count(kSquare, Sampling::kSobol, count, 0, "test");
}

TEST(PdeRegion, ANormalOfAHolePointsIntoTheHole) {
  const auto region = annulus(0.2);
  EXPECT_NEAR(region.share() * 4, pi * (0.81 - 0.09), 1e-2);
  const auto centre = torch::tensor({0.2, 0.0}, torch::kFloat64);
  const auto [edge, rows] = region.part(1, unit(500));
  EXPECT_EQ(rows.size(0), 500);
  EXPECT_TRUE(
      near(edge.normals, (centre - edge.points) / 0.3, testing::kFloat64));
  const auto outer = region.part(0, unit(500)).edge;
  EXPECT_TRUE(near(outer.normals, outer.points / 0.9, testing::kFloat64));
}

TEST(PdeRegion, WhatFlowsOutOfTheEdgeIsWhatArisesInside) {
  // F = (x³, y²): ∮ F·n = ∫ 3x² + 2y, also with edges that cut each other.
  const Region bitten(kSquare, {disk(-0.2, 0, 0.7), disk(0.5, 0.3, 0.4)},
                      of(Kind::kDifference, leaf(0), leaf(1)));
  const Region lens(kSquare, {disk(-0.2, 0, 0.7), disk(0.3, 0.3, 0.6)},
                    of(Kind::kIntersection, leaf(0), leaf(1)));
  const Region both(kSquare, {disk(-0.2, 0, 0.7), disk(0.3, 0.3, 0.6)},
                    of(Kind::kUnion, leaf(0), leaf(1)));
  const Region ring = annulus(0.2);
  for (const auto* region : {&bitten, &lens, &both, &ring}) {
    double flux = 0;
    for (int64_t n = 0; n < 2; ++n) {
      const auto edge = region->part(n, unit(1 << 14)).edge;
      const auto x = edge.points.select(1, 0), y = edge.points.select(1, 1);
      const auto field = torch::stack({x.pow(3), y.square()}, 1);
      flux += (field * edge.normals).sum().item<double>() / (1 << 14) *
              region->shapes()[static_cast<size_t>(n)].shape->edge_size();
    }
    const auto points = in_square(1 << 16);
    const auto inside = region->contains(points).to(torch::kFloat64);
    const auto source =
        3 * points.select(1, 0).square() + 2 * points.select(1, 1);
    EXPECT_NEAR(flux, 4 * (source * inside).mean().item<double>(), 3e-3);
  }
}

TEST(PdeRegion, CombinationsAreThoseOfSets) {
  const std::vector<Region::Named> two{disk(-0.2, 0, 0.7), disk(0.3, 0.3, 0.6)};
  const auto points = in_square(4096);
  const auto inside = [&](const Combination& what) {
    return Region(kSquare, two, what).contains(points);
  };
  const auto a = inside(leaf(0)), b = inside(leaf(1));
  EXPECT_TRUE(torch::equal(inside(of(Kind::kUnion, leaf(0), leaf(1))), a | b));
  EXPECT_TRUE(
      torch::equal(inside(of(Kind::kIntersection, leaf(0), leaf(1))), a & b));
  EXPECT_TRUE(torch::equal(inside(of(Kind::kDifference, leaf(0), leaf(1))),
                           a & b.logical_not()));
  const Combination box{};
  EXPECT_TRUE(torch::equal(inside(of(Kind::kDifference, box, leaf(0))),
                           a.logical_not()));
}

TEST(PdeRegion, AnEdgeBetweenTwoPartsOfTheInsideBoundsNothing) {
  const Region wall(
      kSquare, {rectangle(-0.5, 0, -0.5, 0.5), rectangle(0, 0.5, -0.5, 0.5)},
      of(Kind::kUnion, leaf(0), leaf(1)));
  for (const int64_t n : {0, 1}) {
    const auto points = wall.part(n, unit(2000)).edge.points;
    EXPECT_GT(points.select(1, 0).abs().min().item<double>(), 0);
    EXPECT_NEAR(wall.size_of_part(n), 2, 1e-2);  // of a length of 3
  }
}

TEST(PdeRegion, SharedSidesOfAnLBelongToTheOuterShape) {
  // The hole has two sides along the outer edge, which bound nothing.
  const Region shape(kSquare, {rectangle(-1, 1, -1, 1), rectangle(0, 1, -1, 0)},
                     of(Kind::kDifference, leaf(0), leaf(1)));
  EXPECT_NEAR(shape.size_of_part(0), 6, 2e-2);
  EXPECT_NEAR(shape.size_of_part(1), 2, 1e-2);
  EXPECT_FALSE(shape.is_covered(1));
  // Faces of the box lie on the outer shape's edge.
  EXPECT_NEAR(shape.share_of_face(0, /*high=*/true), 0.5, 1e-2);
  EXPECT_EQ(shape.share_of_face(0, true, /*uncovered=*/true), 0);
  const Region same(kSquare, {rectangle(-1, 1, -1, 1), rectangle(-1, 1, -1, 1)},
                    of(Kind::kUnion, leaf(0), leaf(1)));
  EXPECT_TRUE(same.is_covered(1));
}

TEST(PdeRegion, FacesThatItTouches) {
  const Region channel(kSquare, {disk(1, 0, 0.5)},
                       of(Kind::kDifference, Combination{}, leaf(0)));
  EXPECT_NEAR(channel.share_of_face(0, true), 0.5, 1e-2);
  EXPECT_EQ(channel.share_of_face(0, false), 1);
  EXPECT_EQ(annulus().share_of_face(0, false), 0);
  // In one point alone.
  const Region tangent(kSquare, {disk(0, 0, 1)}, leaf(0));
  EXPECT_EQ(tangent.share_of_face(0, false), 0);
  EXPECT_EQ(tangent.share_of_face(1, true), 0);
  // Half of the disk is beyond the box, where there is no domain.
  EXPECT_NEAR(channel.size_of_part(0), pi / 2, 1e-2);
  EXPECT_FALSE(channel.beyond_box().has_value());
}

TEST(PdeRegion, SaysHowFarItLeavesTheBox) {
  const Region out(kSquare, {disk(0.3, 0.1, 0.9)}, leaf(0));
  const auto beyond = out.beyond_box();
  ASSERT_TRUE(beyond.has_value());
  EXPECT_EQ(beyond->axis, 0);
  EXPECT_NEAR(beyond->by, 0.2, 1e-5);
  EXPECT_NEAR(beyond->at, 1.2, 1e-5);
  EXPECT_FALSE(annulus().beyond_box().has_value());
  EXPECT_EQ(Region(kSquare, {disk(0, 0, 0.5), disk(0, 0, 0.6)},
                   of(Kind::kDifference, leaf(0), leaf(1)))
                .share(),
            0);
}

TEST(PdeRegion, SlackTakesInWhatIsOnTheEdge) {
  const auto region = annulus();
  const auto edge = region.part(0, unit(100)).edge.points;
  EXPECT_TRUE(region.contains(edge, 1e-9).all().item<bool>());
  EXPECT_FALSE(region.contains(edge * 1.01, 1e-9).any().item<bool>());
}

}  // namespace
}  // namespace propagator::pde
