// Exact steps of linear equations against the simulators and closed forms;
// simulators that go on from their own frames; grids that change.

#include <cmath>
#include <numbers>

#include "physics/fields/field_with.h"
#include "propagator/core/error.h"
#include "propagator/physics/fields/advection.h"
#include "propagator/physics/fields/blobs.h"
#include "propagator/physics/fields/burgers.h"
#include "propagator/physics/fields/heat_fields.h"
#include "propagator/physics/fields/plates.h"
#include "propagator/physics/fields/reaction_diffusion.h"
#include "propagator/physics/fields/shallow_water.h"
#include "propagator/physics/fields/vorticity.h"
#include "testing.h"

namespace propagator::physics {
namespace {

using testing::near;
using testing::random;
using testing::With;

constexpr double kStepPi = std::numbers::pi;

TEST(PhysicsFieldSteps, AShiftIsWhatAdvectionDoes) {
  const With<Advection> waves(
      {"points=48", "frames=9", "time=1", "speed_min=-0.7", "speed_max=1.3"});
  const auto found = waves.problem.solve({.seed = 2, .count = 4});
  const auto u = found.values.select(3, 0);  // (4, 9, 48)
  for (int64_t n = 0; n < 4; ++n) {
    const double length = found.parameters[n][0].item<double>() / 8;
    EXPECT_TRUE(near(shifted(u[n].narrow(0, 0, 8), {length}),
                     u[n].narrow(0, 1, 8), {1e-10, 1e-10}));
  }
}

// The kernel of Fourier interpolation on an odd number of points, moved.
TEST(PhysicsFieldSteps, AShiftOfAUnitVectorIsTheDirichletKernel) {
  const int64_t n = 9;
  const double length = 0.37;
  const auto columns = shifted(torch::eye(n, torch::kFloat64), {length});
  for (int64_t source = 0; source < n; ++source) {
    for (int64_t i = 0; i < n; ++i) {
      const double x =
          static_cast<double>(i - source) / static_cast<double>(n) - length;
      const double exact = std::sin(static_cast<double>(n) * kStepPi * x) /
                           (static_cast<double>(n) * std::sin(kStepPi * x));
      EXPECT_NEAR(columns[source][i].item<double>(), exact, 1e-12);
    }
  }
}

TEST(PhysicsFieldSteps, AShiftByWholeCellsRollsEachAxis) {
  const auto states = random({2, 6, 8}, "states");
  EXPECT_TRUE(near(shifted(states, {2.0 / 6, -3.0 / 8}),
                   torch::roll(states, {2, -3}, {1, 2}), {1e-11, 1e-11}));
}

TEST(PhysicsFieldSteps, DiffusionIsWhatHeatFieldsDo) {
  const With<HeatFields> heat({"points=17", "frames=5", "time=0.5", "modes=6"});
  const auto found = heat.problem.solve({.seed = 1, .count = 3});
  const auto u = found.values.select(-1, 0);  // (3, 5, 17, 17)
  for (int64_t n = 0; n < 3; ++n) {
    const double diffusion = found.parameters[n][0].item<double>() / 8;
    EXPECT_TRUE(near(diffused(u[n].narrow(0, 0, 4), diffusion),
                     u[n].narrow(0, 1, 4), {1e-9, 1e-9}));
  }
}

// On different numbers of points: faces stay, a harmonic function stays, one
// sine decays by its factor, and two steps are one of the sum.
TEST(PhysicsFieldSteps, DiffusionObeysItsLaws) {
  const auto x = points_with_ends(0, 1, 9).unsqueeze(1);
  const auto y = points_with_ends(0, 1, 12);
  const auto some = random({2, 9, 12}, "states");
  const auto later = diffused(some, 0.01);
  EXPECT_TRUE(near(later.select(1, 0), some.select(1, 0), testing::kFloat64));
  EXPECT_TRUE(near(later.select(2, 11), some.select(2, 11), testing::kFloat64));
  const auto harmonic =
      (1 + x * y - 2 * y +
       torch::sin(kStepPi * 2 * y) * torch::sinh(kStepPi * 2 * x) / 200)
          .unsqueeze(0);
  EXPECT_TRUE(near(diffused(harmonic, 0.3), harmonic, {1e-11, 1e-11}));
  const auto sine =
      (torch::sin(3 * kStepPi * x) * torch::sin(5 * kStepPi * y)).unsqueeze(0);
  EXPECT_TRUE(near(diffused(sine, 0.004),
                   sine * std::exp(-34 * kStepPi * kStepPi * 0.004),
                   {1e-11, 1e-12}));
  EXPECT_TRUE(near(diffused(diffused(some, 0.01), 0.02), diffused(some, 0.03),
                   {1e-10, 1e-11}));
}

// What a problem makes of its own frame 2, against its later ones.
template <class Problem>
double error_of_going_on(const std::vector<std::string>& settings) {
  const With<Problem> with(settings);
  EXPECT_TRUE(with.problem.continues());
  const auto found = with.problem.solve({.seed = 3, .first = 2, .count = 2});
  const int64_t count = found.values.size(1) - 3;
  const auto later = with.problem.continued(found.values.select(1, 2),
                                            found.parameters, count);
  EXPECT_EQ(later.size(1), count);
  return relative_l2(later, found.values.narrow(1, 3, count));
}

TEST(PhysicsFieldSteps, SimulatorsGoOnFromTheirOwnFrames) {
  EXPECT_LT(error_of_going_on<Advection>({"points=32", "frames=6", "time=0.7",
                                          "speed_min=-1", "speed_max=1"}),
            1e-11);
  EXPECT_LT(error_of_going_on<Blobs>(
                {"points=32", "frames=5", "width_min=0.08", "time=0.4"}),
            1e-8);
  EXPECT_LT(error_of_going_on<HeatFields>({"points=13", "frames=6", "modes=4"}),
            1e-11);
  EXPECT_LT(error_of_going_on<Plates>({"rows=7", "cols=9", "frames=8"}), 1e-12);
  EXPECT_LT(error_of_going_on<DiffusionReaction>(
                {"points=12", "frames=5", "time=0.4"}),
            1e-11);
  EXPECT_LT(error_of_going_on<GrayScott>({"points=12", "frames=5", "time=40"}),
            1e-11);
  EXPECT_LT(error_of_going_on<Vorticity>(
                {"points=16", "modes=4", "frames=5", "time=2"}),
            1e-10);
  EXPECT_LT(error_of_going_on<ShallowWater>(
                {"points=16", "frames=5", "time=0.4", "boundary=wall"}),
            1e-12);
  // The exact solution, where viscosity leaves the points enough.
  EXPECT_LT(error_of_going_on<Burgers>(
                {"points=128", "frames=5", "time=0.4", "viscosity=0.3"}),
            1e-5);
  EXPECT_FALSE((
      With<HeatFields>({"points=5", "modes=2", "dims=3"}).problem.continues()));
}

TEST(PhysicsFieldSteps, SumsThatAreConservedAre) {
  const auto drift = [](const auto& with) {
    EXPECT_EQ(with.problem.conserved().size(), 1);
    return largest_drift(with.problem.solve({.seed = 1}).values.select(-1, 0));
  };
  EXPECT_LT(drift(With<Advection>({"points=32", "frames=5"})), 1e-12);
  EXPECT_LT(drift(With<Blobs>({"points=32", "frames=4"})), 1e-9);
  EXPECT_LT(
      drift(With<Vorticity>({"points=16", "modes=4", "frames=3", "time=1"})),
      1e-12);
  EXPECT_LT(drift(With<ShallowWater>(
                {"points=12", "frames=4", "time=1", "boundary=periodic"})),
            1e-12);
  EXPECT_TRUE(With<ShallowWater>({"points=12"}).problem.conserved().empty());
}

TEST(PhysicsFieldSteps, PlatesAreThoseOfTheForecast) {
  const With<Plates> with({"rows=6", "cols=8", "frames=7"});
  const auto found = with.problem.solve({.seed = 5, .first = 1, .count = 3});
  HeatPlateOptions plate;
  plate.rows = 6, plate.cols = 8, plate.frames = 7;
  const auto cases = draw_cases(plate, 5, 1, 3);
  EXPECT_TRUE(
      torch::equal(found.values.select(-1, 0).flip(2), solve(plate, cases)));
  EXPECT_TRUE(torch::equal(found.parameters.select(1, 0), cases.alpha));
  // The time of a frame is α t.
  EXPECT_NEAR(with.problem.layout().times[1].item<double>(),
              (cases.alpha * cases.dt)[0].item<double>(), 1e-12);
  const auto wrong = testing::thrown<ConfigError>([] {
    With<Plates>({"alpha_min=0.1", "alpha_max=0.05"});
  });
  EXPECT_NE(wrong.find("field.alpha_min"), std::string::npos) << wrong;
}

TEST(PhysicsFieldSteps, WavesSurviveAChangeOfGrid) {
  const auto wave = [](int64_t n) {
    const auto x = 2 * kStepPi * periodic_points(0, 1, n);
    return (1 + torch::sin(3 * x) - 0.5 * torch::cos(2 * x)).view({1, n, 1});
  };
  EXPECT_TRUE(near(resampled(wave(32), FieldGrid::kPeriodic, {8}), wave(8),
                   testing::kFloat64));
  EXPECT_TRUE(near(resampled(wave(8), FieldGrid::kPeriodic, {20}), wave(20),
                   testing::kFloat64));
}

TEST(PhysicsFieldSteps, CellsKeepTheirMeanAndLinesStayLines) {
  const auto cells = random({2, 8, 4, 3}, "cells");
  const auto coarse = resampled(cells, FieldGrid::kCells, {4, 2});
  EXPECT_TRUE(near(coarse.select(1, 1).select(1, 0),
                   cells.narrow(1, 2, 2).narrow(2, 0, 2).mean({1, 2}),
                   testing::kFloat64));
  const auto fine = resampled(coarse, FieldGrid::kCells, {8, 4});
  EXPECT_TRUE(near(fine.mean({1, 2}), cells.mean({1, 2}), testing::kFloat64));
  const auto line = points_with_ends(-1, 2, 9).view({1, 9, 1});
  const auto half = resampled(line, FieldGrid::kEnds, {5});
  EXPECT_TRUE(near(half, points_with_ends(-1, 2, 5).view({1, 5, 1}),
                   testing::kFloat64));
  EXPECT_TRUE(
      near(resampled(half, FieldGrid::kEnds, {9}), line, testing::kFloat64));
  EXPECT_EQ(coarser(8, FieldGrid::kPeriodic), 4);
  EXPECT_EQ(coarser(9, FieldGrid::kEnds), 5);
  EXPECT_EQ(coarser(8, FieldGrid::kEnds), 0);
  EXPECT_EQ(coarser(7, FieldGrid::kCells), 0);
}

}  // namespace
}  // namespace propagator::physics
