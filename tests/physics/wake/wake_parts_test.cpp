#include <cmath>

#include "propagator/physics/wake/flow_window.h"
#include "propagator/physics/wake/log_polar_grid.h"
#include "propagator/physics/wake/numerov.h"
#include "propagator/physics/wake/total_head.h"
#include "testing.h"

namespace propagator::physics {
namespace {

using propagator::testing::devices;
using propagator::testing::kFloat64;
using propagator::testing::near;
using propagator::testing::Tolerance;

double largest(const torch::Tensor& x) { return x.abs().max().item<double>(); }

// Decaying vortices, an exact flow of the whole plane, moved off the symmetry
// axes: ψ = cos x cos y e^(-2νt), ω = 2ψ, p = -(cos 2x + cos 2y) / 4.
struct Vortices {
  static torch::Tensor x(const torch::Tensor& r, const torch::Tensor& t) {
    return r * torch::cos(t) + 0.3;
  }
  static torch::Tensor y(const torch::Tensor& r, const torch::Tensor& t) {
    return r * torch::sin(t) - 0.2;
  }
  static torch::Tensor stream(const torch::Tensor& r, const torch::Tensor& t) {
    return torch::cos(x(r, t)) * torch::cos(y(r, t));
  }
  static torch::Tensor u(const torch::Tensor& x, const torch::Tensor& y) {
    return -torch::cos(x + 0.3) * torch::sin(y - 0.2);
  }
  static torch::Tensor v(const torch::Tensor& x, const torch::Tensor& y) {
    return torch::sin(x + 0.3) * torch::cos(y - 0.2);
  }
  static torch::Tensor p(const torch::Tensor& x, const torch::Tensor& y) {
    return -(torch::cos(2 * (x + 0.3)) + torch::cos(2 * (y - 0.2))) / 4;
  }
};

TEST(PhysicsWakeGrid, ModesComeBackFromPoints) {
  for (const auto& device : devices()) {
    const LogPolarGrid grid(9, 12, 4, device);
    auto modes = testing::random({2, 9, 12}, "modes");
    modes[1].select(1, 0).fill_(0);
    EXPECT_TRUE(near(grid.to_modes(grid.to_points(modes.to(device))).cpu(),
                     modes, kFloat64));
  }
}

TEST(PhysicsWakeGrid, ProductsOfAllModesHaveNoAliasing) {
  // The two highest modes: cos 11θ sin 11θ has only mode 22, which is cut off,
  // and cos² 11θ has the mean ½.
  const LogPolarGrid grid(9, 12, 4, torch::kCPU);
  auto even = torch::zeros({2, 9, 12}, torch::kFloat64), odd = even.clone();
  even[0].select(1, 11).fill_(1);
  odd[1].select(1, 11).fill_(1);
  const auto mixed =
      grid.to_modes(product(grid.to_points(even), grid.to_points(odd)));
  EXPECT_LT(largest(mixed), 1e-14);
  auto squared =
      grid.to_modes(product(grid.to_points(even), grid.to_points(even)));
  squared[0].select(1, 0).sub_(0.5);
  EXPECT_LT(largest(squared), 1e-14);
}

TEST(PhysicsWakeGrid, DerivativesAreOfSixthOrderAndExactInTheAngle) {
  const auto f = [](const torch::Tensor& r, const torch::Tensor& t) {
    return torch::cos(r) * (1 + torch::cos(3 * t) - 2 * torch::sin(2 * t));
  };
  double errors[2], seconds[2];
  for (const int64_t fine : {0, 1}) {
    const LogPolarGrid grid(fine ? 81 : 41, 8, 3, torch::kCPU);
    const auto modes = grid.modes_of(f);
    const auto& r = grid.radius();
    const auto slope = modes / torch::cos(r) * -(r * torch::sin(r));
    EXPECT_TRUE(near(grid.d_xi_at_wall(modes), grid.d_xi(modes).select(1, 0),
                     kFloat64));
    errors[fine] = largest(grid.d_xi(modes) - slope);
    const auto second = modes / torch::cos(r) *
                        -(r * torch::sin(r) + r.square() * torch::cos(r));
    seconds[fine] = largest(grid.d_xi2(modes) - second);
    auto turned = torch::zeros_like(modes);
    turned[0].select(1, 2).copy_(-4 * torch::cos(r).squeeze(1));
    turned[1].select(1, 3).copy_(-3 * torch::cos(r).squeeze(1));
    EXPECT_TRUE(near(grid.d_theta(modes), turned, {1e-12, 1e-12}));
  }
  EXPECT_LT(errors[1], 1e-5);
  EXPECT_GT(std::log2(errors[0] / errors[1]), 5.5);
  EXPECT_GT(std::log2(seconds[0] / seconds[1]), 4.5);  // near the ends
}

// y = e^(-aξ) cos 3ξ in all modes, as the solution of y″ = q y + g.
double numerov_error(double a, int64_t rings, const torch::Device& device,
                     double* slope_error = nullptr) {
  const double h = 2.0 / static_cast<double>(rings - 1);
  const auto xi = torch::arange(rings, torch::kFloat64).unsqueeze(1) * h;
  const auto k = torch::arange(5, torch::kFloat64);
  const auto q = k.square() + 7 * torch::exp(2 * xi);  // (n, K)
  const auto decay = torch::exp(-a * xi);
  const auto cos = torch::cos(3 * xi), sin = torch::sin(3 * xi);
  const auto y = (decay * cos).expand({rings, 5});
  const auto first = -decay * (a * cos + 3 * sin);
  const auto second = decay * ((a * a - 9) * cos + 6 * a * sin);
  const auto g = (second - q * y).expand({2, rings, 5}).contiguous();
  const auto outer = (first[rings - 1] + k * y[rings - 1]).expand({2, 5});
  const NumerovSolver solver(h, q.to(device), k.to(device));
  const auto solved =
      solver.solve(g.to(device), torch::ones({2, 5}, g.options()).to(device),
                   outer.to(device));
  if (slope_error != nullptr) {
    *slope_error = largest(solver.wall_slope(solved, g.to(device)) + a);
  }
  return largest(solved.cpu() - y);
}

TEST(PhysicsWakeNumerov, ConvergesInFourthOrderToAManufacturedSolution) {
  for (const auto& device : devices()) {
    double slope_error = 1;
    const double coarse = numerov_error(6, 41, device);
    const double fine = numerov_error(6, 81, device, &slope_error);
    EXPECT_LT(fine, 1e-4);
    EXPECT_GT(std::log2(coarse / fine), 3.8);
    EXPECT_LT(slope_error, 5e-3);
    // Where it has not vanished, the outer ring counts.
    EXPECT_GT(
        std::log2(numerov_error(1, 41, device) / numerov_error(1, 81, device)),
        2.9);
  }
}

TEST(PhysicsWakeNumerov, ProductsGiveWhatSweepsGive) {
  const auto q = testing::random({33, 40}, "q").abs() * 30;
  const auto kappa = testing::random({40}, "kappa").abs();
  const auto g = testing::random({2, 33, 40}, "g");
  const auto wall = testing::random({2, 40}, "wall"),
             outer = testing::random({2, 40}, "outer");
  const auto swept = NumerovSolver(0.1, q, kappa).solve(g, wall, outer);
  for (const auto& device : devices()) {
    const NumerovSolver solver(0.1, q.to(device), kappa.to(device),
                               NumerovSolver::Method::kProduct);
    EXPECT_TRUE(near(
        solver.solve(g.to(device), wall.to(device), outer.to(device)).cpu(),
        swept, {1e-10, 1e-12}));
  }
}

TEST(PhysicsWakeHead, IsThatOfDecayingVortices) {
  for (const auto& device : devices()) {
    const double nu = 0.02;
    const LogPolarGrid grid(161, 24, 3, device);
    const auto stream = grid.modes_of(Vortices::stream);
    const auto head = total_head(grid, stream, stream * (-2 * nu), stream * 2,
                                 nu, /*outside=*/0.5);
    const auto exact =
        grid.modes_of([](const torch::Tensor& r, const torch::Tensor& t) {
          const auto x = r * torch::cos(t), y = r * torch::sin(t);
          return Vortices::p(x, y) +
                 (Vortices::u(x, y).square() + Vortices::v(x, y).square()) / 2;
        });
    auto difference = (head - exact).cpu();
    const double constant = difference[0][0][0].item<double>();
    difference[0].select(1, 0).sub_(constant);
    EXPECT_LT(largest(difference), 2e-6);
    EXPECT_NEAR(head[0][160][0].item<double>(), 0.5, 1e-12);
  }
}

TEST(PhysicsWakeWindow, VelocityAndPressureAreThoseOfTheField) {
  const double nu = 0.02;
  const LogPolarGrid grid(161, 24, 3, torch::kCPU);
  const auto stream = grid.modes_of(Vortices::stream);
  const auto head =
      total_head(grid, stream, stream * (-2 * nu), stream * 2, nu, 0);
  const auto x = testing::random({200}, "x") + 1.6;
  const auto y = testing::random({200}, "y");
  const auto at = FlowWindow(grid, x, y).sample(stream, head);
  EXPECT_TRUE(near(at.u, Vortices::u(x, y), {0, 1e-7}));
  EXPECT_TRUE(near(at.v, Vortices::v(x, y), {0, 1e-7}));
  const auto pressure = at.p - Vortices::p(x, y);
  EXPECT_LT(largest(pressure - pressure.mean()), 2e-6);
}

TEST(PhysicsWakeWindow, VelocityHasNoDivergenceBetweenRingsEither) {
  // Of any stream function, however rough; by differences of 2e-5, within one
  // pair of rings, since second derivatives of u jump at rings.
  const LogPolarGrid grid(21, 6, 4, torch::kCPU);
  auto stream = testing::random({2, 21, 6}, "stream");
  stream[1].select(1, 0).fill_(0);
  const double e = 1e-5;
  const auto x = testing::random({50}, "x") * 0.5 + 1.5;
  const auto y = testing::random({50}, "y");
  const auto sample = [&](double dx, double dy) {
    return FlowWindow(grid, x + dx, y + dy)
        .sample(stream, torch::zeros_like(stream));
  };
  const auto divergence =
      (sample(e, 0).u - sample(-e, 0).u + sample(0, e).v - sample(0, -e).v) /
      (2 * e);
  const auto shear = (sample(0, e).u - sample(0, -e).u) / (2 * e);
  EXPECT_GT(largest(shear), 1);
  EXPECT_LT(largest(divergence), 1e-5 * largest(shear));
}

// The vortices on a window of (T, Y, X) points.
FlowFields vortex_window(int64_t points, double nu) {
  const auto line = [&](double from, double to) {
    return torch::linspace(from, to, points, torch::kFloat64);
  };
  const auto t = line(0, 1).view({-1, 1, 1}), y = line(0, 2).view({1, -1, 1}),
             x = line(0, 3).view({1, 1, -1});
  const auto decay = torch::exp(-2 * nu * t);
  return {Vortices::u(x, y) * decay, Vortices::v(x, y) * decay,
          Vortices::p(x, y) * decay.square()};
}

TEST(PhysicsWakeResidual, VanishesInFourthOrderForAnExactFlow) {
  const auto residual = [&](int64_t points, double nu, double factor) {
    auto fields = vortex_window(points, nu);
    fields.p *= factor;
    const auto n = static_cast<double>(points - 1);
    return flow_residual(fields, 1 / n, 2 / n, 3 / n, nu);
  };
  const auto coarse = residual(21, 0.3, 1), fine = residual(41, 0.3, 1);
  EXPECT_LT(fine.momentum_max, 1e-4);
  EXPECT_LT(fine.divergence_max, 1e-4);
  EXPECT_LE(fine.momentum_rms, fine.momentum_max);
  EXPECT_GT(std::log2(coarse.momentum_rms / fine.momentum_rms), 3.7);
  // Half of the pressure gradient is missed: rms of ¼ sin 2x and ¼ sin 2y.
  EXPECT_NEAR(residual(41, 1e-3, 0.5).momentum_rms, 0.25 / std::sqrt(2), 0.03);
  auto one = vortex_window(9, 1);
  for (auto* f : {&one.u, &one.v, &one.p}) *f = f->narrow(0, 0, 1);
  EXPECT_TRUE(std::isnan(flow_residual(one, 1, 1, 1, 1).momentum_rms));
}

}  // namespace
}  // namespace propagator::physics
