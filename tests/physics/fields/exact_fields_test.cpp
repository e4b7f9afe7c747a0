// Simulators whose frames are closed forms: advection, blobs, heat.

#include <cmath>
#include <numbers>

#include "physics/fields/field_with.h"
#include "propagator/core/error.h"
#include "propagator/physics/fields/advection.h"
#include "propagator/physics/fields/blobs.h"
#include "propagator/physics/fields/case_draws.h"
#include "propagator/physics/fields/heat_fields.h"
#include "testing.h"

namespace propagator::physics {
namespace {

using testing::near;
using testing::With;

constexpr double kExactPi = std::numbers::pi;

TEST(PhysicsFields, DrawsDependOnSeedAndCaseAlone) {
  const CaseRange five{.seed = 7, .first = 0, .count = 5};
  const CaseRange later{.seed = 7, .first = 3, .count = 2};
  const auto draw = [](const CaseRange& range) {
    const CaseDraws draws(range, "test");
    return torch::cat({draws.normal(3), draws.uniform(4, -1, 1),
                       draws.whole(5, 1, 3), draws.log_uniform(2, 1, 10)},
                      1);
  };
  EXPECT_TRUE(torch::equal(draw(five).narrow(0, 3, 2), draw(later)));
  auto other = five;
  other.seed = 8;
  EXPECT_FALSE(torch::equal(draw(five), draw(other)));
}

TEST(PhysicsFields, DrawsHaveTheirMoments) {
  const CaseDraws draws({.seed = 1, .first = 0, .count = 200}, "moments");
  const auto normal = draws.normal(501);
  const double count = 200 * 501;
  EXPECT_LT(std::abs(testing::mean_of(normal)), 5 / std::sqrt(count));
  EXPECT_NEAR(testing::mean_of(normal.square()), 1, 5 * std::sqrt(2 / count));
  EXPECT_NEAR(testing::mean_of(normal.pow(4)), 3, 5 * std::sqrt(96 / count));
  const auto whole = draws.whole(500, 1, 3);
  for (const int n : {1, 2, 3}) {
    EXPECT_NEAR(testing::mean_of((whole == n).to(torch::kFloat64)), 1.0 / 3,
                5 * std::sqrt(2.0 / 9 / 1e5));
  }
}

TEST(PhysicsFields, RingMovesFourCellsAStep) {
  const With<Advection> ring({"points=160", "frames=51", "time=1.25", "modes=5",
                              "drawn=0", "amplitude_min=-1", "unit_max=yes"});
  const auto found = ring.problem.solve({.seed = 3, .first = 4, .count = 3});
  const auto u = found.values.select(3, 0);  // (3, 51, 160)
  EXPECT_TRUE(near(u.select(1, 0).abs().amax(1),
                   torch::ones({3}, torch::kFloat64), testing::kFloat64));
  for (const int64_t n : {1, 7, 50}) {
    EXPECT_TRUE(near(u.select(1, n), torch::roll(u.select(1, 0), 4 * n, 1),
                     testing::kFloat64));
  }
}

TEST(PhysicsFields, AdvectionIsTheClosedFormAtAnySpeed) {
  const With<Advection> drawn({"speed_min=-2", "speed_max=2", "points=64"});
  const auto range = CaseRange{.seed = 3, .first = 0, .count = 4};
  const auto found = drawn.problem.solve(range);
  EXPECT_EQ(found.parameters.sizes(), (std::vector<int64_t>{4, 1}));
  EXPECT_GT(found.parameters.std().item<double>(), 0.1);
  const auto numbers = drawn.problem.assess(range, found, FieldCheck::kRefined);
  EXPECT_LT(numbers.at("shift_error"), 1e-12);
  EXPECT_LT(numbers.at("mean_drift"), 1e-12);
}

TEST(PhysicsFields, BlobsAreCarriedWithTheirMass) {
  const With<Blobs> blobs({"frames=6"});
  const auto found = blobs.problem.solve({.seed = 2, .first = 0, .count = 8});
  EXPECT_EQ(found.values.sizes(), (std::vector<int64_t>{8, 6, 32, 32, 1}));
  EXPECT_LT(largest_drift(found.values.select(4, 0)), 1e-12);
  EXPECT_LT(
      blobs.problem.assess({}, found, FieldCheck::kNone).at("shift_error"),
      1e-6);
}

// A whole number of cells a frame moves the picture by so many.
TEST(PhysicsFields, ABlobComesBackAfterAWholeTurn) {
  const With<Blobs> blobs({"frames=2", "speed=0"});
  const auto still = blobs.problem.solve({.seed = 2, .first = 0, .count = 2});
  EXPECT_TRUE(near(still.values.select(1, 1), still.values.select(1, 0),
                   testing::kFloat64));
  // One Gaussian of height 1: its mass is that of the closed form.
  const With<Blobs> one({"frames=2", "blobs_max=1", "amplitude_min=1",
                         "width_min=0.1", "width_max=0.1"});
  const auto mass =
      one.problem.solve({}).values.select(1, 0).sum().item<double>() / 1024;
  EXPECT_NEAR(mass, 2 * kExactPi * 0.01, 1e-12);
}

TEST(PhysicsFields, HeatDecaysToASteadyStateWithItsFaces) {
  for (const char* dims : {"dims=2", "dims=3"}) {
    const With<HeatFields> heat({dims, "points=9", "modes=5", "time=400",
                                 "frames=3", "diffusivity_min=0.05"});
    const auto range = CaseRange{.seed = 5, .first = 1, .count = 2};
    const auto found = heat.problem.solve(range);
    const auto u = found.values.select(-1, 0);
    const auto last = u.select(1, 2);
    // After e^-400 nothing but the steady state is left, the same from then on.
    EXPECT_TRUE(near(u.select(1, 1), last, testing::kFloat64)) << dims;
    EXPECT_GT((u.select(1, 0) - last).abs().max().item<double>(), 0.1);
    EXPECT_LT(
        heat.problem.assess(range, found, FieldCheck::kNone).at("face_drift"),
        1e-12);
    // A harmonic function has its extremes on the faces.
    auto inside = last;
    for (int64_t axis = 1; axis < last.dim(); ++axis) {
      inside = inside.narrow(axis, 1, 7);
    }
    EXPECT_LT(inside.max().item<double>(), last.max().item<double>());
    EXPECT_GT(inside.min().item<double>(), last.min().item<double>());
  }
}

TEST(PhysicsFields, HeatAgreesWithExplicitDifferencesToSecondOrder) {
  for (const int64_t dims : {2, 3}) {
    std::vector<double> errors;
    for (const int64_t points : {9, 17}) {
      const With<HeatFields> heat(
          {fmt::format("dims={}", dims), fmt::format("points={}", points),
           "modes=3", "boundary_modes=2", "frames=2", "diffusivity_min=0.02",
           "diffusivity_max=0.02"});
      errors.push_back(heat.assess(FieldCheck::kFull).at("explicit_error"));
    }
    EXPECT_LT(errors[1], 0.02) << dims;
    EXPECT_NEAR(std::log2(errors[0] / errors[1]), 2, 0.5) << dims;
  }
}

TEST(PhysicsFields, WhatContradictsIsRefused) {
  const auto says = [](auto make, const char* key) {
    try {
      make();
      ADD_FAILURE() << key;
    } catch (const ConfigError& error) {
      EXPECT_EQ(error.key(), key);
    }
  };
  says([] { With<Advection>({"points=8"}); }, "field.modes");
  says([] { With<Advection>({"speed_min=2"}); }, "field.speed_max");
  says([] { With<Blobs>({"blobs_min=4"}); }, "field.blobs_max");
  says([] { With<HeatFields>({"modes=32"}); }, "field.modes");
  says([] { With<HeatFields>({"dims=3", "points=300"}); }, "field.points");
}

}  // namespace
}  // namespace propagator::physics
