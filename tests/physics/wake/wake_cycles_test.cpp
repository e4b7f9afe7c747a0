#include "propagator/physics/wake/wake_cycles.h"

#include <torch/utils.h>

#include <cmath>
#include <numbers>

#include "propagator/core/error.h"
#include "propagator/data/wake_cycles_simulator.h"
#include "propagator/physics/wake/wake_harmonics.h"
#include "testing.h"

namespace propagator::physics {
namespace {

using testing::near;
using testing::thrown;
using torch::Tensor;

constexpr double kPi = std::numbers::pi;

Tensor line(double from, double to, int64_t count) {
  return torch::linspace(from, to, count, torch::kFloat64);
}

// Over a time that is no whole number of periods.
TEST(PhysicsWakeCycles, HarmonicsOfASignalAreFound) {
  const auto t = line(0, 7.3, 200);
  const auto angle = 2 * kPi * 0.4 * t;
  const auto first = 0.5 + 2 * torch::cos(angle) - torch::sin(2 * angle);
  const auto second = 3 * torch::sin(angle) + 0.25 * torch::cos(2 * angle);
  const auto found = fit_harmonics(t, torch::stack({first, second}, 1), 0.4, 2);
  const auto expected = torch::tensor(
      {{0.5, 0.}, {2., 0.}, {0., 3.}, {0., 0.25}, {-1., 0.}}, torch::kFloat64);
  EXPECT_TRUE(near(found, expected, {1e-9, 1e-10}));
}

TEST(PhysicsWakeCycles, TurnedHarmonicsAreTheSameSignal) {
  const auto coefficients = testing::random({3, 5, 2}, "coefficients");
  const auto turns = torch::tensor({0.3, -2., 5.}, torch::kFloat64);
  const auto turned = turn_harmonics(coefficients, turns);
  const auto at = [](double angle, const Tensor& of) {
    return torch::matmul(
        harmonic_columns(torch::tensor({angle}, torch::kFloat64), 2), of);
  };
  for (int64_t n = 0; n < 3; ++n) {
    EXPECT_TRUE(near(at(1.1 - turns[n].item<double>(), turned[n]),
                     at(1.1, coefficients[n]), testing::kFloat64));
  }
}

// A table whose numbers are polynomials, which interpolation must keep.
WakeCycles polynomials() {
  const auto reynolds = torch::tensor({60., 80., 120., 180.}, torch::kFloat64);
  const auto x = line(1, 4, 7), y = line(-1, 1, 5);
  const auto nu = 1 / reynolds;
  const auto plane = torch::outer(y.pow(3) - y, x.square()) + 1;  // (Y, X)
  auto velocity = torch::zeros({4, 3, 2, 5, 7}, torch::kFloat64);
  for (int64_t k = 0; k < 3; ++k) {
    for (int64_t c = 0; c < 2; ++c) {
      const auto scale =
          (100 * nu).pow(static_cast<double>(k)) + static_cast<double>(c);
      velocity.select(1, k).select(1, c).copy_(scale.view({4, 1, 1}) * plane);
    }
  }
  return {.reynolds = reynolds,
          .strouhal = 0.2 - 4 * nu,
          .x = x,
          .y = y,
          .velocity = velocity};
}

TEST(PhysicsWakeCycles, InterpolationKeepsPolynomials) {
  const auto table = polynomials();
  const auto at = torch::tensor({60., 71., 150., 180.}, torch::kFloat64);
  EXPECT_TRUE(near(table.interpolate(table.strouhal, at), 0.2 - 4 / at,
                   testing::kFloat64));
  const auto sensors = table.at_sensors({1.3, 4}, {-0.7, 0.2});
  EXPECT_EQ(sensors.sizes(), (std::vector<int64_t>{4, 3, 2, 2}));
  const auto found = table.interpolate(sensors, at);
  const auto plane = [](double x, double y) {
    return (y * y * y - y) * x * x + 1;
  };
  for (int64_t k = 0; k < 3; ++k) {
    const auto scale = (100 / at).pow(static_cast<double>(k)) + 1;
    EXPECT_TRUE(near(found.select(1, k).select(1, 1).select(1, 0),
                     scale * plane(1.3, -0.7), testing::kFloat64));
    EXPECT_TRUE(near(found.select(1, k).select(1, 1).select(1, 1),
                     scale * plane(4, 0.2), testing::kFloat64));
  }
}

TEST(PhysicsWakeCycles, ATableIsReadAsItWasWritten) {
  const testing::TemporaryFolder folder;
  const auto path = folder.path() / "cycles.h5";
  const auto table = polynomials();
  data::Tensors arrays{{"reynolds", table.reynolds},
                       {"strouhal", table.strouhal},
                       {"x", table.x},
                       {"y", table.y},
                       {"velocity", table.velocity}};
  data::save_tensors(path, {arrays, "{}"});
  const auto read = data::read_wake_cycles(path);
  EXPECT_TRUE(torch::equal(read.velocity, table.velocity));
  EXPECT_TRUE(torch::equal(read.strouhal, table.strouhal));
  const auto said = [&](const char* name, const Tensor& instead) {
    auto damaged = arrays;
    damaged[name] = instead;
    data::save_tensors(path, {damaged, "{}"});
    return thrown<DataError>([&] { data::read_wake_cycles(path); });
  };
  const auto has = [](const std::string& text, const char* words) {
    EXPECT_NE(text.find(words), std::string::npos) << text;
  };
  has(said("reynolds", table.reynolds.flip(0)), "that rise");
  has(said("x", table.x.narrow(0, 0, 3)), "four or more places");
  has(said("x", table.x.narrow(0, 0, 5)), "shapes of one table");
  has(said("velocity", table.velocity.narrow(1, 0, 2)), "shapes of one table");
  has(said("velocity", table.velocity[0]), "shapes of one table");
  has(said("strouhal", table.strouhal / 0), "not finite");
}

// The flow is its own mirror image half a period later:
//   u(x, -y, φ + π) = u(x, y, φ),  v(x, -y, φ + π) = -v(x, y, φ).
// So coarse a flow, and so soon, is so only to some per cent.
TEST(PhysicsWakeCycles, AComputedFlowIsItsMirrorImageHalfAPeriodLater) {
  WakeCyclesOptions options;
  options.flow = {.modes = 12,
                  .rings = 32,
                  .outer_radius = 8,
                  .sponge_radius = 4,
                  .time_step = 0.025};
  options.reynolds_min = 110;
  options.reynolds_max = 120;
  options.nodes = 2;
  options.harmonics = 2;
  options.x_max = 3;
  options.y_min = -1;
  options.y_max = 1;
  options.columns = options.rows = 5;
  options.settling = 20;
  options.recording = 20;
  options.validate();
  const auto [cycles, numbers] = simulate_wake_cycles(options, torch::kCPU);
  cycles.expect_whole("simulated");
  EXPECT_GT(cycles.strouhal.min().item<double>(), 0.12);
  EXPECT_LT(cycles.strouhal.max().item<double>(), 0.25);
  const auto of_last = cycles.velocity[1];
  const auto mirrored = of_last.flip(2);  // y to -y
  const double size = of_last.slice(0, 1).abs().max().item<double>();
  EXPECT_GT(size, 0.05);
  for (int64_t k = 0; k < 5; ++k) {
    const double sign = (k + 1) / 2 % 2 == 0 ? 1 : -1;  // of half a period
    EXPECT_LT(
        (of_last[k][0] - sign * mirrored[k][0]).abs().max().item<double>(),
        0.25 * size)
        << k;
    EXPECT_LT(
        (of_last[k][1] + sign * mirrored[k][1]).abs().max().item<double>(),
        0.25 * size)
        << k;
  }
  // Reynolds numbers so close say nearly the same.
  ASSERT_EQ(numbers.held_out.size(), 2u);
  EXPECT_LT(numbers.held_out[0].velocity_error, 0.15);
  EXPECT_LT(numbers.held_out[0].strouhal_error, 0.01);
}

TEST(PhysicsWakeCycles, SaysWhatCannotBeComputed) {
  const auto said = [](auto change) {
    WakeCyclesOptions options;
    change(options);
    return thrown<ConfigError>([&] { options.validate(); });
  };
  EXPECT_NE(said([](auto& o) { o.reynolds_max = 60; }).find("more than"),
            std::string::npos);
  EXPECT_NE(said([](auto& o) { o.x_max = 10; }).find("sponge_radius"),
            std::string::npos);
  EXPECT_NE(said([](auto& o) { o.x_min = 0; }).find("outside the cylinder"),
            std::string::npos);
}

}  // namespace
}  // namespace propagator::physics
