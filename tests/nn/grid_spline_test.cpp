#include "propagator/nn/grid_spline.h"

#include <torch/utils.h>

#include "jet_checks.h"
#include "propagator/nn/spline.h"

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

}  // namespace
}  // namespace propagator::nn
