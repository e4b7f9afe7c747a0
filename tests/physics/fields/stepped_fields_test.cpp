// Simulators that step in time: Burgers, two reactions, vorticity.

#include <cmath>
#include <numbers>

#include "physics/fields/field_with.h"
#include "propagator/core/error.h"
#include "propagator/physics/fields/basis.h"
#include "propagator/physics/fields/burgers.h"
#include "propagator/physics/fields/etdrk4.h"
#include "propagator/physics/fields/reaction_diffusion.h"
#include "propagator/physics/fields/vorticity.h"
#include "testing.h"

namespace propagator::physics {
namespace {

using testing::near;
using testing::With;
using torch::Tensor;

constexpr double kStepPi = std::numbers::pi;

// Against the integral φ_n(z) = ∫ e^{(1-s) z} s^{n-1}/(n-1)! ds by Simpson.
TEST(PhysicsFieldSteps, PhiFunctionsAreTheirIntegrals) {
  const auto z = torch::tensor({-60., -5., -1.01, -1., -0.9, -1e-3, 0., 0.7},
                               torch::kFloat64);
  constexpr int64_t kCells = 4000;
  const auto s = torch::linspace(0, 1, 2 * kCells + 1, torch::kFloat64);
  auto weight = torch::full_like(s, 2);
  weight.index_put_({torch::arange(1, 2 * kCells, 2)}, 4.0);
  weight[0] = 1;
  weight[-1] = 1;
  weight /= 6 * kCells;
  double factorial = 1;
  for (int64_t n = 1; n <= 3; ++n) {
    if (n > 1) factorial *= static_cast<double>(n - 1);
    const auto integrand = torch::exp(torch::outer(z, 1 - s)) *
                           s.pow(static_cast<double>(n - 1)) / factorial;
    EXPECT_TRUE(
        near(phi(n, z), torch::matmul(integrand, weight), {1e-10, 1e-12}))
        << n;
  }
}

// v' = -λ v + v²: the error of a step halved falls by 2^4, exact without v².
TEST(PhysicsFieldSteps, ExponentialStepsAreOfFourthOrder) {
  const auto rate = torch::tensor({1., 3., 20.}, torch::kFloat64);
  const auto begin = torch::tensor({0.5, 2., 15.}, torch::kFloat64);
  const auto error = [&](int64_t steps) {
    const double dt = 1 / static_cast<double>(steps);
    const Etdrk4 scheme(-rate, dt, torch::kFloat64);
    auto v = begin;
    for (int64_t n = 0; n < steps; ++n) {
      v = scheme.step(v, [](const Tensor& w) { return w * w; });
    }
    const auto decay = torch::exp(-rate);
    const auto exact = decay * begin / (1 - begin / rate * (1 - decay));
    return (v - exact).abs().max().item<double>();
  };
  EXPECT_NEAR(std::log2(error(64) / error(128)), 4, 0.3);
  const Etdrk4 once(-rate, 1, torch::kFloat64);
  EXPECT_TRUE(near(
      once.step(begin, [](const Tensor& w) { return torch::zeros_like(w); }),
      begin * torch::exp(-rate), testing::kFloat64));
}

TEST(PhysicsFieldSteps, BasesAreOrthonormalAndDiagonaliseTheLaplacian) {
  for (const int64_t n : {7, 8}) {
    for (const bool periodic : {true, false}) {
      const auto make =
          periodic ? AxisBasis::periodic : AxisBasis::without_flux;
      const auto basis =
          make(n, 2, LaplacianKind::kDifferences, torch::kFloat64);
      EXPECT_TRUE(near(torch::matmul(basis.matrix, basis.matrix.t()),
                       torch::eye(n, torch::kFloat64), testing::kFloat64));
      // Second differences of cells, without flux or periodic.
      auto second = -2 * torch::eye(n, torch::kFloat64);
      for (int64_t i = 0; i + 1 < n; ++i) {
        second[i][i + 1] = 1;
        second[i + 1][i] = 1;
      }
      if (periodic) {
        second[0][n - 1] = 1;
        second[n - 1][0] = 1;
      } else {
        second[0][0] = -1;
        second[n - 1][n - 1] = -1;
      }
      second *= static_cast<double>(n * n) / 4;
      const auto found = torch::matmul(
          basis.matrix.t(),
          torch::matmul(torch::diag(basis.eigenvalues), basis.matrix));
      EXPECT_TRUE(near(found, second, {1e-12, 1e-11})) << n << periodic;
    }
  }
}

// One wave of small amplitude decays as e^{-ν/π (2π)² t}.
TEST(PhysicsFieldSteps, ASmallWaveOfBurgersDecaysAsHeatDoes) {
  for (const char* method : {"method=exact", "method=spectral"}) {
    const With<Burgers> burgers({"viscosity=0.05", "points=32", "modes=1",
                                 "drawn=1", "amplitude_min=1e-6",
                                 "amplitude_max=1e-6", "frames=5", "time=1",
                                 "refine=1", method});
    const auto u = burgers.problem.solve({.seed = 3}).values[0].select(2, 0);
    const auto decay = torch::exp(-0.05 * 4 * kStepPi *
                                  torch::linspace(0, 1, 5, torch::kFloat64));
    // What u u_x adds is of the order of the amplitude.
    EXPECT_TRUE(near(u, u.narrow(0, 0, 1) * decay.unsqueeze(1), {1e-4, 1e-11}))
        << method;
  }
}

TEST(PhysicsFieldSteps, BurgersByIntegralHeatAndStepsIsTheSame) {
  // 0.02: the integral; 0.2: the heat equation.
  for (const char* viscosity : {"viscosity=0.02", "viscosity=0.2"}) {
    const With<Burgers> burgers(
        {viscosity, "points=64", "frames=5", "time=1", "refine=8"});
    const auto numbers = burgers.assess(FieldCheck::kFull);
    EXPECT_LT(numbers.at("exact_error"), 1e-9) << viscosity;
    EXPECT_LT(numbers.at("spectral_error"), 1e-6) << viscosity;
  }
  // Where points resolve the shocks, their sum is the mean, and stays 0.
  const With<Burgers> smooth({"viscosity=0.2", "points=64", "frames=5"});
  EXPECT_LT(smooth.assess(FieldCheck::kRefined).at("mean_drift"), 1e-12);
}

// The maximum of |u| never rises, and the shock at the smallest ν stays sharp.
TEST(PhysicsFieldSteps, AShockOfBurgersObeysTheMaximumPrinciple) {
  const With<Burgers> burgers(
      {"viscosity=0.001", "points=64", "frames=3", "time=1"});
  const auto u = burgers.problem.solve({.seed = 3, .count = 2}).values;
  const auto most = u.abs().amax({2, 3});  // (N, T)
  EXPECT_TRUE((most.select(1, 2) <= most.select(1, 0)).all().item<bool>());
  const auto jump = u.diff(1, 2).abs().amax({2, 3}).select(1, 2);
  EXPECT_GT(jump.min().item<double>(), 0.2);
}

TEST(PhysicsFieldSteps, ReactionsAgreeWithTheClassicalMethod) {
  const With<DiffusionReaction> first(
      {"points=16", "frames=3", "time=1", "steps=40", "laplacian=differences"});
  auto numbers = first.assess(FieldCheck::kFull);
  EXPECT_LT(numbers.at("step_error"), 1e-6);
  EXPECT_LT(numbers.at("explicit_error"), 1e-5);
  const With<GrayScott> second({"points=16", "frames=3", "time=40", "steps=20",
                                "spots=3", "spot_width=0.3"});
  numbers = second.assess(FieldCheck::kFull);
  EXPECT_LT(numbers.at("step_error"), 1e-6);
  EXPECT_LT(numbers.at("explicit_error"), 1e-6);
}

TEST(PhysicsFieldSteps, ReactionsConvergeInTimeWithFourthOrder) {
  const auto last = [](const char* steps) {
    const With<DiffusionReaction> one(
        {"points=16", "frames=2", "time=1", "initial=smooth", steps});
    return one.problem.solve({.seed = 2}).values.select(1, 1);
  };
  const auto a = last("steps=40"), b = last("steps=80"), c = last("steps=160");
  const auto order =
      std::log2(((a - b).norm() / (b - c).norm()).item<double>());
  EXPECT_NEAR(order, 4, 0.5);
}

TEST(PhysicsFieldSteps, GrayScottRestsWithoutSpotsAndKeepsItsMass) {
  const With<GrayScott> rest({"points=8", "frames=2", "time=10", "spots=0"});
  const auto still = rest.problem.solve({.seed = 1}).values;
  EXPECT_TRUE(near(still.select(4, 0),
                   torch::ones({1, 2, 8, 8}, torch::kFloat64),
                   testing::kFloat64));
  EXPECT_EQ(still.select(4, 1).abs().max().item<double>(), 0);
  // Nothing is fed and nothing removed: v comes of u.
  const With<GrayScott> closed({"points=16", "frames=3", "time=40", "spots=4",
                                "spot_width=0.3", "feed_min=0", "feed_max=0",
                                "kill_min=0", "kill_max=0"});
  const auto values = closed.problem.solve({.seed = 1, .count = 2}).values;
  EXPECT_LT(largest_drift(values.sum(4)), 1e-12);
  EXPECT_GT(largest_drift(values.select(4, 1)), 0.01);
}

TEST(PhysicsFieldSteps, VorticesOfTaylorAndGreenKeepTheirForm) {
  const With<Vorticity> flow({"points=24", "initial=taylor-green", "vortices=2",
                              "forcing=0", "frames=3", "time=2", "steps=20"});
  const auto numbers = flow.assess(FieldCheck::kRefined);
  EXPECT_LT(numbers.at("taylor_green_error"), 1e-12);
  EXPECT_LT(numbers.at("step_error"), 1e-12);
}

// The flow of f alone, w = A/(8π² ν) (sin + cos)(2π(x + y)), is steady: its
// lines of flow are those of its vorticity.
TEST(PhysicsFieldSteps, TheForceAloneDrivesASteadyFlow) {
  const With<Vorticity> flow({"points=16", "variance=0", "frames=3",
                              "viscosity_min=0.05", "viscosity_max=0.05",
                              "modes=4", "time=20", "steps=400"});
  const auto w = flow.problem.solve({}).values[0].select(3, 0);
  const auto x = periodic_points(0, 1, 16);
  const auto angle = 2 * kStepPi * (x.unsqueeze(1) + x);
  const auto exact = 0.1 / (8 * kStepPi * kStepPi * 0.05) *
                     (torch::sin(angle) + torch::cos(angle));
  EXPECT_TRUE(near(w[2], exact, {1e-9, 1e-12}));
}

TEST(PhysicsFieldSteps, ARandomFlowHasItsCovarianceAndConverges) {
  const With<Vorticity> many({"points=16", "modes=5", "frames=2", "time=1e-6",
                              "steps=1", "forcing=0"});
  const auto w = many.problem.solve({.seed = 1, .count = 400})
                     .values.select(1, 0)
                     .select(3, 0);
  double variance = 0;
  for (int64_t k = -5; k <= 5; ++k) {
    for (int64_t l = -5; l <= 5; ++l) {
      if (k == 0 && l == 0) continue;
      variance +=
          std::pow(7, 1.5) *
          std::pow(
              4 * kStepPi * kStepPi * static_cast<double>(k * k + l * l) + 49,
              -2.5);
    }
  }
  // Eight modes have most of it: 400 cases know it to √(2/3200).
  EXPECT_NEAR(testing::mean_of(w.square()) / variance, 1, 0.1);
  EXPECT_LT(w.mean({1, 2}).abs().max().item<double>(), 1e-14);
  const With<Vorticity> one({"points=32", "modes=5", "frames=3", "time=2",
                             "steps=50", "variance=2000", "viscosity_min=0.005",
                             "viscosity_max=0.005"});
  const auto numbers = one.assess(FieldCheck::kFull);
  EXPECT_LT(numbers.at("step_error"), 1e-7);
  EXPECT_LT(numbers.at("grid_error"), 1e-4);
  EXPECT_LT(numbers.at("mean_drift"), 1e-12);
}

}  // namespace
}  // namespace propagator::physics
