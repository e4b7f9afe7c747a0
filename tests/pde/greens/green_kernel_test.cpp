#include "propagator/pde/greens/green_kernel.h"

#include <torch/autograd.h>
#include <torch/utils.h>

#include <cmath>
#include <numbers>

#include "propagator/core/error.h"
#include "propagator/kernels/encoder/causal_attention.h"
#include "testing.h"

namespace propagator::pde {
namespace {

using kernels::GreenKind;
using kernels::GreenScale;
using testing::gradient_is_right;
using testing::near;
using testing::random;
using testing::thrown;
using torch::Tensor;

constexpr double kNever = -std::numeric_limits<double>::infinity();
constexpr double kRate = 0.3;

GreenOptions options_of(GreenKind kind, int64_t dimensions) {
  GreenOptions o;
  o.kind = kind;
  o.dimensions = dimensions;
  o.rate = kRate;
  o.velocity = {0.7, -0.4, 0.2};
  o.core = 0.05;
  o.radius = 9;
  return o;
}

GreenKernel kernel_of(GreenKind kind, int64_t dimensions) {
  return GreenKernel(options_of(kind, dimensions));
}

Tensor numbers(double from, double to, int64_t count) {
  return torch::linspace(from, to, count, torch::kFloat64);
}

Tensor same(const Tensor& like, double value) {
  return torch::full_like(like, value);
}

// G at (x, 0, …) for all x of a vector.
Tensor along(const GreenKernel& g, const Tensor& x, double dt) {
  const auto dx =
      torch::constant_pad_nd(x.unsqueeze(1), {0, g.function.dimensions - 1});
  return torch::exp(g.log_green(dx, same(x, dt)));
}

// All points of a grid of `n` numbers along each of d axes, (n^d, d).
Tensor grid(const Tensor& axis, int64_t d) {
  const auto axes = std::vector<Tensor>(static_cast<size_t>(d), axis);
  std::vector<Tensor> columns;
  for (const auto& mesh : torch::meshgrid(axes, "ij")) {
    columns.push_back(mesh.flatten());
  }
  return torch::stack(columns, 1);
}

TEST(PdeGreens, HeatIsItsFormula) {
  const auto g = kernel_of(GreenKind::kHeat, 2);
  const auto dx = torch::tensor({{0.3, -0.4}}, torch::kFloat64);
  const double expected =
      -0.25 / (4 * kRate * 0.7) - std::log(4 * std::numbers::pi * kRate * 0.7);
  EXPECT_NEAR(
      g.log_green(dx, torch::tensor({0.7}, torch::kFloat64)).item<double>(),
      expected, 1e-14);
}

TEST(PdeGreens, HeatHasMassOneAndMovesWithTheVelocity) {
  const int64_t counts[] = {401, 121, 61};
  for (const auto kind : {GreenKind::kHeat, GreenKind::kAdvectionDiffusion}) {
    for (int64_t d = 1; d <= 3; ++d) {
      const auto g = kernel_of(kind, d);
      const int64_t n = counts[d - 1];
      const auto points = grid(numbers(-6, 6, n), d);
      const double dt = 0.8;
      const auto density =
          torch::exp(g.log_green(points, same(points.select(1, 0), dt)));
      const double cell = std::pow(12.0 / static_cast<double>(n - 1), d);
      EXPECT_NEAR(density.sum().item<double>() * cell, 1, 1e-10) << d;
      const auto mean = (density.unsqueeze(1) * points).sum(0) * cell;
      const bool moves = kind == GreenKind::kAdvectionDiffusion;
      const double velocity[] = {0.7, -0.4, 0.2};
      for (int64_t axis = 0; axis < d; ++axis) {
        EXPECT_NEAR(mean[axis].item<double>(), moves ? velocity[axis] * dt : 0,
                    1e-10);
      }
    }
  }
}

// Σ_y G(x - y, t1) G(y, t2) cell = G(x, t1 + t2)
TEST(PdeGreens, TwoStepsOfHeatAreOne) {
  for (const auto kind : {GreenKind::kHeat, GreenKind::kAdvectionDiffusion}) {
    for (int64_t d = 1; d <= 2; ++d) {
      const auto g = kernel_of(kind, d);
      const int64_t n = d == 1 ? 801 : 161;
      const auto y = grid(numbers(-6, 6, n), d);
      const double cell = std::pow(12.0 / static_cast<double>(n - 1), d);
      const auto of = [&](const Tensor& dx, double dt) {
        return torch::exp(g.log_green(dx, same(dx.select(1, 0), dt)));
      };
      for (const double at : {-0.5, 0.0, 0.9}) {
        const auto x = torch::full({1, d}, at, torch::kFloat64);
        const double two =
            (of(x - y, 0.5) * of(y, 0.4)).sum().item<double>() * cell;
        EXPECT_NEAR(two, of(x, 0.9).item<double>(), 1e-10);
      }
    }
  }
}

TEST(PdeGreens, HeatSolvesItsEquation) {
  const auto g = kernel_of(GreenKind::kAdvectionDiffusion, 2);
  const double velocity[] = {0.7, -0.4};
  auto dx = random({20, 2}, "dx").set_requires_grad(true);
  auto dt = (random({20}, "dt") + 1.5).detach().set_requires_grad(true);
  const auto u = torch::exp(g.log_green(dx, dt));
  const auto first = torch::autograd::grad({u.sum()}, {dx, dt}, {}, true, true);
  auto residual = first[1];
  for (int64_t axis = 0; axis < 2; ++axis) {
    const auto slope = first[0].select(1, axis);
    const auto second = torch::autograd::grad({slope.sum()}, {dx}, {}, true)[0];
    residual =
        residual + velocity[axis] * slope - kRate * second.select(1, axis);
  }
  EXPECT_TRUE(near(residual, torch::zeros({20}), {0, 1e-13}));
}

TEST(PdeGreens, WaveHasTheMassOfItsTime) {
  for (int64_t d = 1; d <= 3; ++d) {
    const auto g = kernel_of(GreenKind::kWave, d);
    for (const double dt : {0.1, 0.8, 2.5}) {  // also narrower than the shell
      // Middles of cells up to the cone, whose edges are edges of cells.
      const int64_t n = 240000;
      const double step = kRate * dt / static_cast<double>(n);
      const auto r = (torch::arange(n, torch::kFloat64) + 0.5) * step;
      const double pi = std::numbers::pi;
      const auto sphere = d == 1   ? same(r, 2)
                          : d == 2 ? 2 * pi * r
                                   : 4 * pi * r.square();
      const double mass =
          (along(g, r, dt) * sphere).sum().item<double>() * step;
      EXPECT_NEAR(mass, dt, 2e-5 * dt) << d;
    }
  }
}

TEST(PdeGreens, WaveWithASmallCoreIsTheExactOne) {
  auto o = options_of(GreenKind::kWave, 2);
  o.core = 1e-6;
  const double inside = std::sqrt(kRate * kRate * 4 - 0.01);
  EXPECT_NEAR(along(GreenKernel(o), torch::tensor({0.1}, torch::kFloat64), 2)
                  .item<double>(),
              1 / (2 * std::numbers::pi * kRate * inside), 1e-5);
}

TEST(PdeGreens, NothingIsSeenBeforeItsTimeOrOutsideTheCone) {
  const auto dx = torch::zeros({4, 3}, torch::kFloat64);
  const auto dt = torch::tensor({-1.0, -1e-12, 0.0, 1e-12}, torch::kFloat64);
  for (const auto kind :
       {GreenKind::kHeat, GreenKind::kWave, GreenKind::kAdvectionDiffusion}) {
    for (int64_t d = 1; d <= 3; ++d) {
      const auto logits = kernel_of(kind, d).log_green(dx.slice(1, 0, d), dt);
      for (int64_t n = 0; n < 3; ++n) {
        EXPECT_EQ(logits[n].item<double>(), kNever);
      }
      EXPECT_TRUE(std::isfinite(logits[3].item<double>()));
      // With a time core equal times see one another, the future still not.
      auto o = options_of(kind, d);
      o.time_core = 0.1;
      const auto later = GreenKernel(o).log_green(dx.slice(1, 0, d), dt);
      EXPECT_EQ(later[1].item<double>(), kNever);
      const bool in_shell = kind != GreenKind::kWave || d < 3;
      EXPECT_EQ(std::isfinite(later[2].item<double>()),
                in_shell || o.rate * o.time_core <= o.core);
    }
  }
  const auto r =
      torch::tensor({0.0, 0.5, 0.56, 0.6, 0.6001, 2.0}, torch::kFloat64);
  for (int64_t d = 1; d <= 3; ++d) {  // the cone ends at c dt = 0.6
    const auto g = along(kernel_of(GreenKind::kWave, d), r, 2);
    for (int64_t n = 0; n < 6; ++n) {
      const bool seen = n < 4 && (d < 3 || n >= 2);
      EXPECT_EQ(g[n].item<double>() > 0, seen) << d << " " << n;
      EXPECT_TRUE(std::isfinite(g[n].item<double>()));
    }
  }
}

// -Δu = f: a unit source sends a unit of flux through every sphere around it.
TEST(PdeGreens, PoissonHasUnitFluxAndNoTime) {
  for (int64_t d = 1; d <= 3; ++d) {
    auto o = options_of(GreenKind::kPoisson, d);
    o.core = 1e-4;
    const GreenKernel g(o);
    auto r = numbers(0.5, 5, 10).set_requires_grad(true);
    const auto dx = torch::constant_pad_nd(r.unsqueeze(1), {0, d - 1});
    const auto value = torch::exp(g.log_green(dx, Tensor()));
    const auto slope = torch::autograd::grad({value.sum()}, {r})[0];
    const double pi = std::numbers::pi;
    const auto sphere = d == 1   ? same(r, 2)
                        : d == 2 ? 2 * pi * r
                                 : 4 * pi * r.square();
    EXPECT_TRUE(near(-slope * sphere, torch::ones({10}), {0, 1e-6}));
    EXPECT_TRUE(std::isfinite(
        g.log_green(torch::zeros({1, d}, torch::kFloat64), Tensor())
            .item<double>()));
    const auto far =
        g.log_green(torch::full({1, d}, 9.5, torch::kFloat64), Tensor());
    EXPECT_EQ(std::isfinite(far.item<double>()), d == 3);
  }
}

TEST(PdeGreens, PeakIsOverTheLargestOfItsTime) {
  for (const auto kind :
       {GreenKind::kHeat, GreenKind::kWave, GreenKind::kPoisson}) {
    for (int64_t d = 1; d <= 3; ++d) {
      auto o = options_of(kind, d);
      const auto r = numbers(0, 1, 2001);
      const auto full = along(GreenKernel(o), r, 2);
      o.scale = GreenScale::kPeak;
      const auto peak = along(GreenKernel(o), r, 2);
      EXPECT_TRUE(near(peak, full / full.max(), {1e-12, 1e-12})) << d;
    }
  }
}

// --- As the bias of attention -----------------------------------------------

// Tokens with space and time, the first one of a case global.
Tensor tokens(int64_t count, int64_t d) {
  return random({2, count, d + 1}, "tokens");
}

Tensor weights_of(const Tensor& scores, const Tensor& logits) {
  return torch::softmax(scores + logits, -1);
}

TEST(PdeGreens, NoRowOfASoftmaxIsEmpty) {
  for (const auto kind :
       {GreenKind::kHeat, GreenKind::kWave, GreenKind::kPoisson,
        GreenKind::kAdvectionDiffusion}) {
    for (int64_t d = 1; d <= 3; ++d) {
      const auto at = tokens(40, d);
      const auto logits = kernel_of(kind, d).logits(at, at, true);
      ASSERT_EQ(logits.sizes(), (std::vector<int64_t>{2, 1, 40, 40}));
      const auto weights = weights_of(random({2, 3, 40, 40}, "scores"), logits);
      EXPECT_TRUE(near(weights.sum(-1), torch::ones({2, 3, 40}), {0, 1e-14}));
      EXPECT_TRUE(torch::equal(logits.select(3, 0),
                               torch::zeros({2, 1, 40}, torch::kFloat64)));
      EXPECT_TRUE(torch::equal(logits.select(2, 0),
                               torch::zeros({2, 1, 40}, torch::kFloat64)));
    }
  }
}

// What a growing diffusivity leaves of the bias. `peak`: attention to what is
// visible, without a bias. `full`: the factor dt^(-d/2) stays, which for keys
// of one time is none; and G itself goes to 0, so that a global token, whose
// logit is 0, gets all weight.
TEST(PdeGreens, LargeDiffusivityIsPlainAttention) {
  const int64_t d = 2;
  const auto scores = random({2, 3, 40, 40}, "scores");
  auto o = options_of(GreenKind::kHeat, d);
  o.rate = 1e9;
  const auto at = tokens(40, d);
  const auto full = GreenKernel(o).logits(at, at, true);
  const auto seen = torch::zeros_like(full).masked_fill(full == kNever, kNever);
  o.scale = GreenScale::kPeak;
  EXPECT_TRUE(near(weights_of(scores, GreenKernel(o).logits(at, at, true)),
                   weights_of(scores, seen), {0, 1e-6}));
  const auto to_global = weights_of(scores, full).select(3, 0).slice(2, 1);
  EXPECT_TRUE(near(to_global, torch::ones_like(to_global), {0, 1e-6}));

  o.scale = GreenScale::kFull;
  auto keys = tokens(40, d), queries = tokens(40, d);
  queries.select(2, d).fill_(2);  // all dt are 2.5: plain attention
  keys.select(2, d).fill_(-0.5);
  EXPECT_TRUE(
      near(weights_of(scores, GreenKernel(o).logits(queries, keys, false)),
           torch::softmax(scores, -1), {0, 1e-6}));
  keys = tokens(40, d);  // of different times: those of dt^(-d/2)
  const auto dt = (2 - keys.select(2, d)).view({2, 1, 1, 40});
  EXPECT_TRUE(
      near(weights_of(scores, GreenKernel(o).logits(queries, keys, false)),
           torch::softmax(scores - 0.5 * d * torch::log(dt), -1), {0, 1e-6}));
}

TEST(PdeGreens, GradientsOfPhysicalParametersAreThoseOfDifferences) {
  for (const auto scale : {GreenScale::kFull, GreenScale::kPeak}) {
    for (const auto kind :
         {GreenKind::kHeat, GreenKind::kWave, GreenKind::kAdvectionDiffusion}) {
      for (int64_t d = 1; d <= 3; ++d) {
        auto o = options_of(kind, d);
        o.scale = scale;
        o.core = 0.3;
        const auto at = tokens(30, d);
        const auto scores = random({2, 1, 30, 30}, "scores");
        const auto values = random({2, 1, 30, 4}, "values");
        const auto f = [&](const Tensor& parameters) {
          GreenKernel g(o);
          g.parameters = parameters;
          return torch::matmul(weights_of(scores, g.logits(at, at, true)),
                               values)
              .square()
              .sum();
        };
        EXPECT_TRUE(gradient_is_right(f, GreenKernel(o).parameters))
            << d << config::name_of(kind);
      }
    }
  }
}

TEST(PdeGreens, IsTheSameInFloat32) {
  for (const auto device : testing::devices()) {
    const auto dx = random({50, 3}, "dx").to(device);
    const auto dt = (random({50}, "dt") + 1.1).to(device);
    for (const auto kind :
         {GreenKind::kHeat, GreenKind::kWave, GreenKind::kPoisson}) {
      const auto g = kernel_of(kind, 2);
      const auto x = dx.slice(1, 0, 2);
      const auto got =
          g.log_green(x.to(torch::kFloat32), dt.to(torch::kFloat32));
      EXPECT_EQ(got.scalar_type(), torch::kFloat32);
      EXPECT_TRUE(
          near(torch::exp(got), torch::exp(g.log_green(x, dt)), {1e-4, 1e-6}));
    }
  }
}

TEST(PdeGreens, LengthsComeFromTheSensors) {
  // 16 of them in a box of 4 by 1, and 2 of nothing.
  auto sensors = torch::rand({16, 3}, torch::kFloat64);
  sensors.select(1, 2).fill_(0.5);
  sensors[0].fill_(0.5);
  for (int64_t axis = 0; axis < 2; ++axis) {
    sensors[1][axis] = 0;
    sensors[2][axis] = axis == 0 ? 4 : 1;
  }
  const auto lengths = lengths_of(sensors, 3);
  EXPECT_NEAR(lengths.spacing, 0.5, 1e-12);
  EXPECT_NEAR(lengths.diagonal, std::sqrt(17.0), 1e-12);
  GreenOptions o;
  o.kind = GreenKind::kPoisson;
  o.dimensions = 2;
  const GreenKernel g(o, sensors);
  EXPECT_NEAR(g.function.core, 0.5, 1e-12);
  EXPECT_NEAR(g.function.radius, 2 * std::sqrt(17.0), 1e-12);
  EXPECT_NE(thrown<ConfigError>([&] {
              GreenKernel none(o);
            }).find("expected a length core"),
            std::string::npos);
  EXPECT_NE(thrown<UsageError>([&] {
              lengths_of(sensors[0], 3);
            }).find("expected sensors (N, 3 or more), got (3)"),
            std::string::npos);
}

TEST(PdeGreens, OptionsAreConfigurationKeys) {
  GreenOptions o;
  config::Schema schema;
  schema.section("green", o);
  schema.find("green.kind")->set("advection_diffusion");
  schema.find("green.velocity_y")->set("0.5");
  EXPECT_EQ(o.kind, GreenKind::kAdvectionDiffusion);
  const auto parameters = GreenKernel(o).parameters;
  EXPECT_TRUE(
      torch::equal(parameters, torch::tensor({1.0, 0.0}, torch::kFloat64)));
  o.dimensions = 2;
  EXPECT_EQ(GreenKernel(o).parameters[2].item<double>(), 0.5);
  o.dimensions = 4;
  EXPECT_NE(thrown<std::invalid_argument>([&] {
              GreenKernel g(o);
            }).find("expected 1, 2 or 3 dimensions, got 4"),
            std::string::npos);
  o.dimensions = 1;
  o.rate = 0;
  EXPECT_NE(thrown<ConfigError>([&] {
              GreenKernel g(o);
            }).find("expected a rate above 0, got 0"),
            std::string::npos);
}

}  // namespace
}  // namespace propagator::pde
