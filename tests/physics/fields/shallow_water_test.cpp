#include "propagator/physics/fields/shallow_water.h"

#include <cmath>

#include "physics/fields/field_with.h"
#include "propagator/core/error.h"
#include "testing.h"

namespace propagator::physics {
namespace {

using testing::near;
using testing::With;

// Mass and momentum must agree on both sides of the shock, and the Riemann
// invariant u + 2c on both sides of the rarefaction.
TEST(PhysicsShallowWater, TheMiddleOfADamBreakObeysItsJumps) {
  for (const double right : {0.1, 0.5, 0.9}) {
    const double g = 9.81, left = 1;
    const auto dam = DamBreak::between(left, right, g);
    const double q = dam.height * dam.speed;
    EXPECT_NEAR(dam.shock * (dam.height - right), q, 1e-12 * g);
    EXPECT_NEAR(
        dam.shock * q,
        q * dam.speed + g / 2 * (dam.height * dam.height - right * right),
        1e-11 * g);
    EXPECT_NEAR(dam.speed + 2 * std::sqrt(g * dam.height),
                2 * std::sqrt(g * left), 1e-12 * g);
  }
}

TEST(PhysicsShallowWater, StillWaterStaysStill) {
  for (const char* boundary :
       {"boundary=wall", "boundary=periodic", "boundary=open"}) {
    const With<ShallowWater> water(
        {"points=12", "points_y=8", "frames=3", "initial=still", boundary});
    const auto numbers = water.assess(FieldCheck::kRefined);
    EXPECT_LT(numbers.at("still_error"), 1e-14) << boundary;
  }
}

TEST(PhysicsShallowWater, WallsAndPeriodicSidesKeepTheWater) {
  for (const char* boundary : {"boundary=wall", "boundary=periodic"}) {
    // Long enough for waves to come back.
    const With<ShallowWater> water({"points=24", "frames=6", "time=8",
                                    "radius_min=0.8", "radius_max=1.2",
                                    boundary});
    const auto numbers = water.assess(FieldCheck::kRefined);
    EXPECT_LT(numbers.at("mass_drift"), 1e-12) << boundary;
    EXPECT_GT(numbers.at("lowest"), 0.3) << boundary;
  }
  const With<ShallowWater> open(
      {"points=24", "frames=6", "time=8", "radius_min=0.8", "radius_max=1.2"});
  EXPECT_GT(open.assess(FieldCheck::kRefined).at("mass_drift"), 0.01);
}

TEST(PhysicsShallowWater, ARoundColumnFallsTheSameInAllDirections) {
  const With<ShallowWater> water({"points=32", "frames=3", "radius_min=0.6"});
  const auto values = water.problem.solve({.seed = 1}).values[0][2];
  const auto h = values.select(2, 0), hu = values.select(2, 1);
  const auto hv = values.select(2, 2);
  EXPECT_TRUE(near(h, h.flip(0), testing::kFloat64));
  EXPECT_TRUE(near(h, h.t(), testing::kFloat64));
  EXPECT_TRUE(near(hu, hv.t(), testing::kFloat64));
  EXPECT_TRUE(near(hu, -hu.flip(0), testing::kFloat64));
  EXPECT_GT(hu.abs().max().item<double>(), 0.1);
}

TEST(PhysicsShallowWater, ADamBreakConvergesToItsExactSolution) {
  std::vector<double> errors;
  for (const char* points : {"points=64", "points=128"}) {
    const With<ShallowWater> water(
        {points, "points_y=4", "frames=2", "initial=planar", "half_side=2.5"});
    const auto numbers = water.assess(FieldCheck::kRefined);
    EXPECT_LT(numbers.at("middle_height_error"), 5e-3) << points;
    EXPECT_LT(numbers.at("middle_speed_error"), 5e-3) << points;
    errors.push_back(numbers.at("l1_error"));
  }
  EXPECT_LT(errors[1], 0.01);
  // A shock is smeared over some cells: first order.
  EXPECT_NEAR(std::log2(errors[0] / errors[1]), 1, 0.4);
}

// Each as half of the dam at the speed √(gh) = 1.
TEST(PhysicsShallowWater, ASmallDamSendsWavesBothWays) {
  const With<ShallowWater> water({"points=200", "points_y=4", "frames=2",
                                  "initial=planar", "height=1.0001"});
  const auto last = water.problem.solve({}).values[0][1].select(1, 0);
  const auto rise = (last.select(1, 0) - 1) / 1e-4;  // (X)
  const auto x = water.problem.layout().axes[0].at;
  const auto middle = torch::abs(x) < 0.7;
  EXPECT_TRUE(near(rise.masked_select(middle),
                   torch::full_like(rise.masked_select(middle), 0.5),
                   {1e-3, 0}));
  const auto ahead = rise.masked_select(x > 1.2);
  EXPECT_LT(ahead.abs().max().item<double>(), 1e-3);
}

TEST(PhysicsShallowWater, WhatContradictsIsRefused) {
  EXPECT_THROW(With<ShallowWater>({"height=0.5"}), ConfigError);
  EXPECT_THROW(With<ShallowWater>({"radius_min=2"}), ConfigError);
}

}  // namespace
}  // namespace propagator::physics
