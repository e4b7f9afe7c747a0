#include "propagator/nn/grid_spline.h"

#include <torch/utils.h>

#include "jet_checks.h"
#include "propagator/nn/spline.h"
#include "propagator/nn/ridge.h"
#include "testing.h"

namespace propagator::nn {
namespace {

using autodiff::Jet;
using autodiff::JetLayout;
using testing::near;
using testing::random;
using torch::Tensor;

const std::vector<double> kBoxLow{0, -1, 2}, kBoxHigh{2, 1, 2.5};

GridSpline box_spline(const std::vector<int64_t>& nodes) {
  const auto axes = static_cast<int64_t>(nodes.size());
  GridSpline spline(
      nodes, std::vector<double>(kBoxLow.begin(), kBoxLow.begin() + axes),
      std::vector<double>(kBoxHigh.begin(), kBoxHigh.begin() + axes));
  spline->to(torch::kFloat64);
  return spline;
}

Tensor points_in_box(int64_t axes, int64_t count) {
  const auto low = torch::tensor(kBoxLow, torch::kFloat64).slice(0, 0, axes);
  const auto high = torch::tensor(kBoxHigh, torch::kFloat64).slice(0, 0, axes);
  return low + (high - low) * random({count, axes}, "points").abs();
}

TEST(NnGridSpline, IsTheTensorProductOfTheSplinesOfKnots) {
  for (const std::vector<int64_t>& nodes :
       {std::vector<int64_t>{6}, {6, 5}, {4, 5, 7}}) {
    const auto axes = static_cast<int64_t>(nodes.size());
    auto shape = nodes;
    shape.push_back(2);
    const auto c = random(shape, "coefficients");
    const auto points = points_in_box(axes, 20);
    auto basis = torch::ones({20, 1}, torch::kFloat64);
    for (int64_t d = 0; d < axes; ++d) {
      const auto at = static_cast<size_t>(d);
      const auto knots = uniform_knots(nodes[at] - 3, 3, kBoxLow[at],
                                       kBoxHigh[at], torch::kFloat64);
      const auto along =
          spline_basis(Jet::constant(points.select(1, d)), knots, 3).value();
      basis = (basis.unsqueeze(2) * along.unsqueeze(1)).flatten(1);
    }
    const auto u = box_spline(nodes)->forward(c, Jet::constant(points)).value();
    EXPECT_TRUE(
        near(u, torch::matmul(basis, c.flatten(0, -2)), {1e-12, 1e-12}));
  }
}

TEST(NnGridSpline, HasPolynomialsInClosedForm) {
  // Σ x_j B = x and Σ (x_j² - h²/3) B = x², here on [-1, 1] of every axis.
  auto spline = box_spline({7, 9});
  const auto places = spline->places(torch::kFloat64);
  const auto x = places.select(-1, 0), t = places.select(-1, 1);
  const double h = 2.0 / 6;
  const auto c = torch::stack({x * t, t * t - h * h / 3}, -1);
  const auto points = points_in_box(2, 30);
  const auto unit = (points - torch::tensor({0., -1.}, torch::kFloat64)) *
                        torch::tensor({1., 1.}, torch::kFloat64) -
                    1;
  const auto u = spline->forward(c, Jet::constant(points)).value();
  EXPECT_TRUE(near(u.select(1, 0), unit.select(1, 0) * unit.select(1, 1),
                   {1e-12, 1e-12}));
  EXPECT_TRUE(near(u.select(1, 1), unit.select(1, 1).square(), {1e-12, 1e-12}));
}

TEST(NnGridSpline, DerivativesAreThoseOfReverseModeAndOfDifferences) {
  for (const std::vector<int64_t>& nodes :
       {std::vector<int64_t>{6}, {6, 5}, {4, 5, 7}}) {
    const auto axes = static_cast<int64_t>(nodes.size());
    auto shape = nodes;
    shape.push_back(2);
    auto spline = box_spline(nodes);
    const auto c = random(shape, "coefficients");
    const auto map = [&](const Jet& x) {
      const auto& rows = x.rows();
      const auto flat =
          x.linear([](const Tensor& all) { return all.flatten(1, 2); });
      return spline->forward(c, flat).linear([&](const Tensor& all) {
        return all.reshape({rows.size(0), rows.size(1), rows.size(2), -1});
      });
    };
    const testing::MovingPoints at{points_in_box(axes, 6).view({3, 2, axes}),
                                   random({2, axes}, "directions")};
    EXPECT_TRUE(testing::derivatives_are_nested(map, at, 2, {1e-10, 1e-10}));
    EXPECT_TRUE(testing::derivatives_are_differences(map, at, 2, {1e-5, 1e-5}));
  }
}

TEST(NnGridSpline, SecondDerivativesAreContinuousAtKnots) {
  auto spline = box_spline({8});
  const auto c = random({8, 1}, "coefficients");
  const auto at = [&](double off) {
    const auto knots = 0.4 * torch::arange(1, 5, torch::kFloat64) + off;
    return spline
        ->forward(c, Jet::moving(knots.unsqueeze(1),
                                 torch::ones({1, 1}, torch::kFloat64),
                                 JetLayout({2})))
        .rows();
  };
  EXPECT_TRUE(near(at(1e-9), at(-1e-9), {1e-6, 1e-6}));
}

TEST(NnGridSpline, FindsTheNearestNode) {
  auto spline = box_spline({5, 4});  // steps of 1 and 2
  const auto points = torch::tensor(
      {{0.0, -1.0}, {0.6, -0.9}, {2.0, 1.0}, {-9.0, 9.0}}, torch::kFloat64);
  EXPECT_TRUE(torch::equal(spline->nearest(points),
                           torch::tensor({5, 9, 14, 6}, torch::kInt64)));
  const auto places = spline->places(torch::kFloat64).flatten(0, 1);
  EXPECT_TRUE(near(places[5], torch::tensor({-1., -1.}, torch::kFloat64),
                   testing::kFloat64));
  EXPECT_TRUE(near(places[14], torch::tensor({1., 1.}, torch::kFloat64),
                   testing::kFloat64));
}

TEST(NnGridSpline, NeedsFourNodes) {
  EXPECT_THROW(GridSpline(std::vector<int64_t>{3}, std::vector<double>{0},
                          std::vector<double>{1}),
               std::invalid_argument);
}

using testing::random;
using torch::Tensor;

Tensor uneven_places() {
  return torch::tensor({-1., -0.7, -0.2, 0.1, 0.5, 0.6, 1.}, torch::kFloat64);
}

TEST(NnGridSpline, GoesThroughItsValuesAndIsExactForCubics) {
  const auto x = uneven_places();
  const auto values = random({7, 2, 3}, "spline values");
  const auto factors = grid_spline_factors(values, x);
  const auto at = grid_spline_basis(Jet::constant(x), x).value();
  EXPECT_TRUE(testing::near(torch::matmul(at, factors.flatten(1)),
                            values.flatten(1), {0, 1e-12}));
  const auto cubic = [](const Tensor& p) {
    return 1 - p + 2 * p.square() - 3 * p.pow(3);
  };
  const auto between = random({20}, "spline points");
  const auto of_cubic = grid_spline_factors(cubic(x).unsqueeze(1), x);
  EXPECT_TRUE(testing::near(
      torch::matmul(grid_spline_basis(Jet::constant(between), x).value(),
                    of_cubic)
          .squeeze(1),
      cubic(between), {0, 1e-12}));
}

TEST(NnGridSpline, SecondDerivativesAreThoseOfACubicAtTheEndsToo) {
  const auto x = uneven_places();
  const auto factors = grid_spline_factors(x.pow(3).unsqueeze(1), x);
  const auto asked = torch::tensor({{-1.}, {0.3}, {1.}}, torch::kFloat64);
  const JetLayout layout({2});
  const auto moving =
      Jet::moving(asked, torch::ones({1, 1}, torch::kFloat64), layout)
          .linear([](const Tensor& rows) { return rows.squeeze(-1); });
  const auto rows =
      torch::matmul(grid_spline_basis(moving, x).rows(), factors).squeeze(-1);
  const auto p = asked.squeeze(1);
  EXPECT_TRUE(testing::near(rows[1], 3 * p.square(), {0, 1e-11}));
  EXPECT_TRUE(testing::near(2 * rows[2], 6 * p, {0, 1e-11}));
}

TEST(NnGridSpline, ThreePlacesAreTooFew) {
  EXPECT_THROW(grid_knots(torch::arange(3, torch::kFloat64)),
               std::invalid_argument);
}

TEST(NnRidge, IsTheSolutionOfTheNormalEquationsWithTheLeastLeaveOneOutError) {
  const auto a = random({20, 5}, "ridge a");
  const auto y =
      torch::mv(a, random({5}, "ridge c")) + 0.5 * random({20}, "ridge noise");
  const auto found = fit_ridge(a, y);
  const auto solved = [&](const Tensor& m, const Tensor& z, double ridge) {
    return torch::mv(torch::inverse(torch::mm(m.t(), m) +
                                    ridge * torch::eye(5, torch::kFloat64)),
                     torch::mv(m.t(), z));
  };
  EXPECT_TRUE(
      testing::near(found.factors, solved(a, y, found.ridge), {1e-9, 1e-10}));
  const auto missed = [&](double ridge) {
    double sum = 0;
    for (int64_t n = 0; n < 20; ++n) {
      const auto without = [n](const Tensor& all) {
        return torch::cat({all.slice(0, 0, n), all.slice(0, n + 1)});
      };
      const auto c = solved(without(a), without(y), ridge);
      sum += (y[n] - torch::dot(a[n], c)).square().item<double>();
    }
    return sum;
  };
  const double least = missed(found.ridge);
  EXPECT_LE(least, missed(found.ridge * 3.1622776601683795) + 1e-12);
  EXPECT_LE(least, missed(found.ridge / 3.1622776601683795) + 1e-12);
}

}  // namespace
}  // namespace propagator::nn
