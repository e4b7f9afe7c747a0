#include "propagator/physics/heat_plate.h"

#include <torch/cuda.h>

#include <cmath>
#include <numbers>
#include <set>

#include "propagator/core/error.h"
#include "testing.h"

namespace propagator::physics {
namespace {

using propagator::testing::kFloat64;
using propagator::testing::near;
using propagator::testing::square;
using propagator::testing::thrown;
using torch::indexing::Slice;

// The mode sin(pπx) sin(qπy), zero on the edges, as one case.
PlateCases sine_mode(const HeatPlateOptions& o, int p, int q, double alpha,
                     double dt) {
  const auto x = torch::linspace(0, 1, o.cols, torch::kFloat64);
  const auto y = torch::linspace(0, 1, o.rows, torch::kFloat64);
  auto mode = torch::outer(torch::sin(y * q * std::numbers::pi),
                           torch::sin(x * p * std::numbers::pi));
  mode.index_put_({0, Slice()}, 0);
  mode.index_put_({-1, Slice()}, 0);
  mode.index_put_({Slice(), 0}, 0);
  mode.index_put_({Slice(), -1}, 0);
  return {mode.unsqueeze(0), torch::tensor({alpha}, torch::kFloat64),
          torch::tensor({dt}, torch::kFloat64)};
}

TEST(PhysicsHeatPlate, SineModeDecaysWithTheExactDiscreteFactor) {
  HeatPlateOptions o;
  o.rows = 17, o.cols = 26, o.height = 0.5, o.width = 2, o.frames = 60;
  const double alpha = 0.05, dt = 0.9 * o.largest_step(alpha);
  const int p = 3, q = 2;
  const auto cases = sine_mode(o, p, q, alpha, dt);
  const auto field = solve(o, cases);
  const double half_pi = std::numbers::pi / 2;
  const double factor =
      1 - 4 * alpha * dt *
              (square(std::sin(p * half_pi / (o.cols - 1)) / o.dx()) +
               square(std::sin(q * half_pi / (o.rows - 1)) / o.dy()));
  for (const int64_t t : {1, 7, 59}) {
    EXPECT_TRUE(near(field[0][t],
                     cases.first[0] * std::pow(factor, static_cast<double>(t)),
                     kFloat64));
  }
}

TEST(PhysicsHeatPlate, SecondOrderInSpace) {
  // At a fixed Fourier number dt ~ dx², so the error falls by four.
  const double alpha = 1, end = 0.05;
  std::vector<double> errors;
  for (const int64_t n : {11, 21, 41}) {
    HeatPlateOptions o;
    o.rows = o.cols = n;
    const double dt = 0.1 * o.dx() * o.dx();
    const auto steps = static_cast<int64_t>(std::lround(end / dt));
    o.frames = steps + 1;
    const auto cases = sine_mode(o, 1, 1, alpha, dt);
    const double decay = std::exp(-2 * square(std::numbers::pi) * alpha *
                                  static_cast<double>(steps) * dt);
    const auto error = solve(o, cases)[0][steps] - cases.first[0] * decay;
    errors.push_back(error.abs().max().item<double>());
  }
  EXPECT_NEAR(std::log2(errors[0] / errors[1]), 2, 0.1);
  EXPECT_NEAR(std::log2(errors[1] / errors[2]), 2, 0.1);
}

TEST(PhysicsHeatPlate, MaximumPrinciple) {
  HeatPlateOptions o;
  o.configuration = PlateConfiguration::kChallenge2;
  o.cfl = 1;  // the very edge of stability
  o.frames = 300;
  const auto cases = draw_cases(o, 3, 0, 20);
  const auto field = solve(o, cases).flatten(2);
  const auto first = cases.first.flatten(1);
  EXPECT_TRUE((std::get<0>(field.max(2)) <=
               std::get<0>(first.max(1)).unsqueeze(1) + 1e-12)
                  .all()
                  .item<bool>());
  EXPECT_TRUE((std::get<0>(field.min(2)) >=
               std::get<0>(first.min(1)).unsqueeze(1) - 1e-12)
                  .all()
                  .item<bool>());
}

TEST(PhysicsHeatPlate, SteadyStateSolvesLaplaceAndIsReached) {
  HeatPlateOptions o;
  o.rows = 9, o.cols = 12, o.height = 0.7, o.frames = 3000;
  o.configuration = PlateConfiguration::kChallenge2;
  o.segment_length = 3;
  const auto cases = draw_cases(o, 1, 0, 3);
  const auto steady = steady_state(o, cases.first);
  const auto inner = steady.index({Slice(), Slice(1, -1), Slice(1, -1)});
  const auto laplacian =
      (steady.index({Slice(), Slice(1, -1), Slice(2)}) - 2 * inner +
       steady.index({Slice(), Slice(1, -1), Slice(0, -2)})) /
          square(o.dx()) +
      (steady.index({Slice(), Slice(2), Slice(1, -1)}) - 2 * inner +
       steady.index({Slice(), Slice(0, -2), Slice(1, -1)})) /
          square(o.dy());
  EXPECT_LT(laplacian.abs().max().item<double>(), 1e-10);
  EXPECT_TRUE(torch::equal(steady.select(1, 0), cases.first.select(1, 0)));
  EXPECT_TRUE(near(solve(o, cases).select(1, -1), steady, {0, 1e-9}));
}

TEST(PhysicsHeatPlate, TensorSolverAgreesInBothPrecisions) {
  HeatPlateOptions o;
  o.frames = 101;
  const auto cases = draw_cases(o, 5, 0, 4);
  EXPECT_TRUE(near(solve_with_tensors(o, cases), solve(o, cases), kFloat64));
  const auto single = cases.to(torch::kFloat32);
  EXPECT_TRUE(
      near(solve_with_tensors(o, single), solve(o, cases), {1e-5, 1e-5}));
  EXPECT_TRUE(near(solve(o, single), solve(o, cases), {1e-5, 1e-5}));
}

TEST(PhysicsHeatPlate, SolvesOnCudaAsOnTheCpu) {
  if (!torch::cuda::is_available()) GTEST_SKIP() << "no CUDA device";
  HeatPlateOptions o;
  o.frames = 101;
  o.configuration = PlateConfiguration::kChallenge2;
  const auto cases = draw_cases(o, 5, 0, 4);
  const auto on_gpu = solve(o, cases.to(torch::device(torch::kCUDA)));
  EXPECT_TRUE(on_gpu.is_cuda());
  EXPECT_TRUE(near(on_gpu, solve(o, cases), kFloat64));
  EXPECT_TRUE(near(steady_state(o, on_gpu.select(1, 0)),
                   steady_state(o, cases.first), kFloat64));
}

TEST(PhysicsHeatPlate, EdgesNeverMove) {
  HeatPlateOptions o;
  o.frames = 50;
  const auto cases = draw_cases(o, 2, 0, 3);
  const auto field = solve(o, cases);
  for (const int64_t side : {0, -1}) {
    EXPECT_TRUE(torch::equal(field.select(2, side).select(1, 49),
                             cases.first.select(1, side)));
    EXPECT_TRUE(torch::equal(field.select(3, side).select(1, 49),
                             cases.first.select(2, side)));
  }
}

TEST(PhysicsHeatPlate, BaseCasesAsSpecified) {
  const HeatPlateOptions o;
  const auto cases = draw_cases(o, 0, 0, 400);
  const auto& f = cases.first;
  // Each edge and the interior is one value; top and bottom own the corners.
  EXPECT_TRUE(torch::equal(
      f.select(1, 0), f.index({Slice(), 0, Slice(5, 6)}).expand({400, 26})));
  EXPECT_TRUE(torch::equal(
      f.select(1, -1), f.index({Slice(), -1, Slice(5, 6)}).expand({400, 26})));
  EXPECT_TRUE(
      torch::equal(f.index({Slice(), Slice(1, -1), 0}),
                   f.index({Slice(), Slice(7, 8), 0}).expand({400, 24})));
  EXPECT_EQ(f.index({Slice(), Slice(1, -1), Slice(1, -1)})
                .flatten(1)
                .std(1)
                .max()
                .item<double>(),
            0);
  // Ranges: U[0, 1] but the bottom, U[0, 0.1]; α from 0.01 to 0.1.
  const auto bottom = f.index({Slice(), -1, 5});
  EXPECT_LE(bottom.max().item<double>(), 0.1);
  EXPECT_GT(bottom.max().item<double>(), 0.095);
  EXPECT_NEAR(f.index({Slice(), 0, 5}).mean().item<double>(), 0.5, 0.05);
  EXPECT_GE(cases.alpha.min().item<double>(), 0.01);
  EXPECT_LE(cases.alpha.max().item<double>(), 0.1);
  EXPECT_NEAR(cases.alpha.mean().item<double>(), 0.055, 0.005);
  // dt = dx²/(10 α): α·dt/dx² is 0.1 in every case.
  EXPECT_TRUE(near(cases.alpha * cases.dt / square(0.04),
                   torch::full({400}, 0.1, torch::kFloat64), kFloat64));
}

TEST(PhysicsHeatPlate, Challenge1HasItsSegments) {
  HeatPlateOptions o;
  const auto base = draw_cases(o, 0, 0, 5).first;
  o.configuration = PlateConfiguration::kChallenge1;
  const auto f = draw_cases(o, 0, 0, 5).first;
  EXPECT_TRUE((f.index({Slice(), Slice(8, 12), 0}) == 1).all().item<bool>());
  EXPECT_TRUE((f.index({Slice(), Slice(8, 12), -1}) == 0).all().item<bool>());
  // Nothing else differs from the base case of the same number.
  EXPECT_EQ((f != base).sum().item<int64_t>(), 5 * 8);
}

TEST(PhysicsHeatPlate, Challenge2DrawsTwoDifferentSides) {
  HeatPlateOptions o;
  const int64_t count = 300;
  const auto base = draw_cases(o, 0, 0, count).first;
  o.configuration = PlateConfiguration::kChallenge2;
  const auto f = draw_cases(o, 0, 0, count).first;
  std::set<std::string> pairs;
  for (int64_t n = 0; n < count; ++n) {
    const auto sides = {f[n].select(1, 0), f[n].select(1, -1),
                        f[n].select(0, 0), f[n].select(0, -1)};
    std::string pattern;
    for (const auto& side : sides) {
      const auto nodes = side.slice(0, 1, -1);
      const int64_t hot = (nodes == 1).sum().item<int64_t>();
      const int64_t cold = (nodes == 0).sum().item<int64_t>();
      pattern += hot == 4 ? 'h' : cold == 4 ? 'c' : '-';
      EXPECT_TRUE(hot + cold == 0 || hot + cold == 4);
    }
    EXPECT_EQ(std::count(pattern.begin(), pattern.end(), 'h'), 1) << pattern;
    EXPECT_EQ(std::count(pattern.begin(), pattern.end(), 'c'), 1) << pattern;
    pairs.insert(pattern);
    EXPECT_EQ((f[n] != base[n]).sum().item<int64_t>(), 8);
    for (const int64_t j : {0, -1}) {
      for (const int64_t i : {0, -1}) {
        EXPECT_EQ(f[n][j][i].item<double>(), base[n][j][i].item<double>());
      }
    }
  }
  EXPECT_EQ(pairs.size(), 12u);  // every ordered pair of sides comes up
}

TEST(PhysicsHeatPlate, CaseDoesNotDependOnItsNeighbours) {
  const HeatPlateOptions o;
  const auto all = draw_cases(o, 4, 0, 10), some = draw_cases(o, 4, 7, 2);
  EXPECT_TRUE(torch::equal(all.first.slice(0, 7, 9), some.first));
  EXPECT_FALSE(torch::equal(draw_cases(o, 5, 7, 2).first, some.first));
}

TEST(PhysicsHeatPlate, FixedStepMakesDiffusivityMatter) {
  HeatPlateOptions o;
  o.frames = 40;
  PlateCases cases = draw_cases(o, 0, 0, 1).select(torch::tensor({0, 0}));
  cases.alpha = torch::tensor({0.02, 0.08}, torch::kFloat64);
  const auto late = [&] {
    cases.dt = torch::tensor({o.step(0.02), o.step(0.08)}, torch::kFloat64);
    return solve(o, cases).select(1, -1);
  };
  const auto same = late();
  EXPECT_TRUE(near(same[0], same[1], kFloat64));
  o.time_step = TimeStep::kFixed;
  EXPECT_DOUBLE_EQ(o.step(0.02), o.step(0.08));
  const auto different = late();
  EXPECT_GT((different[0] - different[1]).abs().max().item<double>(), 0.05);
}

TEST(PhysicsHeatPlate, UnstableStepIsAnErrorThatNamesTheLimit) {
  HeatPlateOptions o;
  PlateCases cases = draw_cases(o, 0, 0, 2);
  cases.alpha.fill_(0.1);
  const double largest = o.largest_step(0.1);  // 0.0016 / 0.4 = 0.004
  EXPECT_NEAR(largest, 0.004, 1e-15);
  cases.dt.fill_(largest);
  EXPECT_NO_THROW(solve(o, cases));
  cases.dt[1] = 0.0041;
  const auto message = thrown<NumericalError>([&] { solve(o, cases); });
  EXPECT_NE(message.find("case 1"), std::string::npos) << message;
  EXPECT_NE(message.find("at most 0.004 "), std::string::npos) << message;

  o.time_step = TimeStep::kFixed;
  o.dt = 0.0041;
  const auto config = thrown<ConfigError>([&] { o.validate(); });
  EXPECT_NE(config.find("0.004,"), std::string::npos) << config;
}

TEST(PhysicsHeatPlate, SegmentsMustFit) {
  HeatPlateOptions o;
  o.configuration = PlateConfiguration::kChallenge1;
  o.rows = 11;
  EXPECT_THROW(o.validate(), ConfigError);
  o.rows = 12;
  EXPECT_NO_THROW(o.validate());
  o.configuration = PlateConfiguration::kChallenge2;
  o.cols = 5;
  EXPECT_THROW(o.validate(), ConfigError);
}

TEST(PhysicsHeatPlate, LeastSquaresFindTheDiffusivity) {
  HeatPlateOptions o;
  o.rows = 9, o.cols = 12, o.height = 2, o.frames = 4;
  o.time_step = TimeStep::kFixed;
  const auto cases = draw_cases(o, 4, 0, 6);
  const auto frames = solve(o, cases);
  EXPECT_TRUE(near(fit_alpha(o, frames, cases.dt), cases.alpha, kFloat64));
  // The best of one number that is off by a little everywhere.
  auto noisy = frames.clone();
  noisy.slice(1, 1) += 1e-6;
  const auto near_by = fit_alpha(o, noisy, cases.dt);
  EXPECT_TRUE(near(near_by, cases.alpha, {1e-3, 0}));
  EXPECT_FALSE(near(near_by, cases.alpha, kFloat64));
}

// Whatever the frames are, the scheme can go on with what is fitted.
TEST(PhysicsHeatPlate, AFittedDiffusivityIsStable) {
  HeatPlateOptions o;
  o.rows = o.cols = 6, o.frames = 9;
  const auto dt = torch::full({3}, 0.1, torch::kFloat64);
  auto frames = testing::random({3, 5, 6, 6}, "frames");
  frames[1].fill_(0.3);  // at rest
  frames[2] = frames[2][0].unsqueeze(0) *
              torch::tensor({1., -9., 81., -729., 6561.}, torch::kFloat64)
                  .view({5, 1, 1});  // explodes
  const auto alpha = fit_alpha(o, frames, dt);
  EXPECT_TRUE(torch::isfinite(solve(o, {frames.select(1, 4), alpha, dt}))
                  .all()
                  .item<bool>());
}

}  // namespace
}  // namespace propagator::physics
