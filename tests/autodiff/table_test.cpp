#include "propagator/autodiff/table.h"

#include <cmath>
#include <stdexcept>

#include "propagator/autodiff/environment.h"
#include "testing.h"

namespace propagator::autodiff {
namespace {

using testing::near;
using torch::Tensor;

Tensor numbers(const std::vector<double>& all) {
  return torch::tensor(all, torch::kFloat64);
}

const Tensor kUneven = numbers({-1, -0.4, 0.1, 0.5, 1.2, 2});

std::vector<Jet> constants(const Tensor& points) {
  return coordinates(Jet::constant(points));
}

TEST(AutodiffTable, CubicsComeOutWithAllTheirDerivatives) {
  const auto f = [](const Tensor& x) { return x.pow(3) - 2 * x * x + 0.5 * x; };
  const Table table("f", {0}, {kUneven}, f(kUneven));
  const auto x = torch::linspace(-1.3, 2.2, 41, torch::kFloat64);
  const auto at = constants(x.unsqueeze(1));
  EXPECT_TRUE(near(table(at, {0}).value(), f(x), {1e-12, 1e-12}));
  EXPECT_TRUE(
      near(table(at, {1}).value(), 3 * x * x - 4 * x + 0.5, {1e-11, 1e-11}));
  EXPECT_TRUE(near(table(at, {2}).value(), 6 * x - 4, {1e-11, 1e-11}));
  EXPECT_TRUE(near(table(at, {3}).value(), torch::full_like(x, 6), {1e-10, 0}));
}

TEST(AutodiffTable, FewNodesGiveALineAndAParabola) {
  const auto x = torch::linspace(-0.5, 3, 9, torch::kFloat64);
  const auto at = constants(x.unsqueeze(1));
  const Table line("f", {0}, {numbers({0, 2})}, numbers({1, 5}));
  EXPECT_TRUE(near(line(at, {0}).value(), 1 + 2 * x, {1e-14, 1e-14}));
  EXPECT_TRUE(near(line(at, {2}).value(), 0 * x, {0, 1e-14}));
  const auto nodes = numbers({0, 0.5, 2});
  const Table parabola("f", {0}, {nodes}, nodes * nodes - nodes);
  EXPECT_TRUE(near(parabola(at, {0}).value(), x * x - x, {1e-13, 1e-13}));
}

TEST(AutodiffTable, SecondDerivativesAreContinuous) {
  const Table table("f", {0}, {kUneven}, (3 * kUneven).sin());
  for (int64_t n = 1; n + 1 < kUneven.size(0); ++n) {
    const double node = kUneven[n].item<double>();
    const auto beside =
        constants(numbers({node - 1e-9, node + 1e-9}).unsqueeze(1));
    for (int64_t order = 0; order < 3; ++order) {
      const auto sides = table(beside, {order}).value();
      EXPECT_NEAR(sides[0].item<double>(), sides[1].item<double>(), 1e-6)
          << node << ", " << order;
    }
  }
}

TEST(AutodiffTable, ErrorFallsWithTheFourthPowerOfTheDistance) {
  const auto error = [](int64_t nodes) {
    const auto along = torch::linspace(0, 2, nodes, torch::kFloat64);
    const Table table("f", {0}, {along}, along.sin());
    const auto x = torch::linspace(0, 2, 501, torch::kFloat64);
    return (table(constants(x.unsqueeze(1)), {0}).value() - x.sin())
        .abs()
        .max()
        .item<double>();
  };
  EXPECT_LT(error(21), 1e-5);
  EXPECT_LT(error(41), error(21) / 12);
}

// f(x, t) of a table whose variables are the third and the first of three.
struct Plane {
  Tensor along_t = torch::linspace(-1, 1, 5, torch::kFloat64);
  Tensor along_x = kUneven;
  Table table{"f",
              {0, 2},
              {along_t, along_x},
              at(along_t.unsqueeze(1), along_x.unsqueeze(0))};

  static Tensor at(const Tensor& t, const Tensor& x) {
    return t * t * x.pow(3) - 2 * t * x + x * x;
  }
};

TEST(AutodiffTable, AxesStandForTheirOwnVariables) {
  const Plane plane;
  const auto points = testing::random({30, 3}, "table");
  const auto t = points.select(1, 0), x = points.select(1, 2);
  const auto all = constants(points);
  EXPECT_TRUE(
      near(plane.table(all, {0, 0}).value(), Plane::at(t, x), {1e-12, 1e-12}));
  EXPECT_TRUE(
      near(plane.table(all, {1, 2}).value(), 12 * t * x, {1e-10, 1e-10}));
}

TEST(AutodiffTable, JetsCarryDerivativesAlongDirections) {
  const Plane plane;
  const auto points = testing::random({30, 3}, "table");
  const auto directions = torch::tensor({{0.5, 3.0, -2.0}}, torch::kFloat64);
  const auto jet = plane.table(
      coordinates(Jet::moving(points, directions, JetLayout({3}))), {0, 0});
  const auto t = points.select(1, 0), x = points.select(1, 2);
  const auto f_t = 2 * t * x.pow(3) - 2 * x;
  const auto f_x = 3 * t * t * x * x - 2 * t + 2 * x;
  EXPECT_TRUE(near(jet.rows()[1], 0.5 * f_t - 2 * f_x, {1e-11, 1e-11}));
  // The third: f_ttx and f_txx and f_xxx, as often as they come.
  const auto third = 3 * 0.25 * -2 * (6 * x * x) + 3 * 0.5 * 4 * (12 * t * x) -
                     8 * (6 * t * t);
  EXPECT_TRUE(near(6 * jet.rows()[3], third, {1e-10, 1e-10}));
}

TEST(AutodiffTable, WorksInTheTypeAndOnTheDeviceOfItsPoints) {
  const Plane plane;
  const auto points = testing::random({30, 3}, "table");
  const auto plain = plane.table(constants(points), {0, 1}).value();
  testing::expect_near_everywhere(
      [&](torch::Device device, torch::ScalarType type) {
        return std::vector{
            plane.table(constants(points.to(device, type)), {0, 1}).value()};
      },
      {plain}, {1e-4, 1e-5});
}

TEST(AutodiffTable, RefusesWhatIsNoGrid) {
  const auto rising = numbers({0, 1, 2});
  EXPECT_THROW(Table("f", {0}, {numbers({0, 2, 1})}, rising),
               std::invalid_argument);
  EXPECT_THROW(Table("f", {0}, {numbers({1})}, numbers({1})),
               std::invalid_argument);
  EXPECT_THROW(Table("f", {0, 1}, {rising}, rising), std::invalid_argument);
}

}  // namespace
}  // namespace propagator::autodiff
