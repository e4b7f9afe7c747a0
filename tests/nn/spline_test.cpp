#include "propagator/nn/spline.h"

#include <torch/autograd.h>
#include <torch/utils.h>

#include <algorithm>

#include "jet_checks.h"

namespace propagator::nn {
namespace {

using autodiff::Jet;
using autodiff::JetLayout;
using propagator::testing::gradient_is_right;
using propagator::testing::kDifferences;
using propagator::testing::kFloat64;
using propagator::testing::near;
using propagator::testing::random;
using torch::Tensor;

constexpr int64_t kIntervals = 5;

Tensor knots_of(int64_t degree) {
  return uniform_knots(kIntervals, degree, -1, 1, torch::kFloat64);
}

Tensor values(const Tensor& x, int64_t degree) {
  return spline_basis(Jet::constant(x), knots_of(degree), degree).value();
}

// Points that move at speed one, to that order.
Jet moving(const Tensor& x, int64_t order) {
  const JetLayout layout({order});
  auto rows = torch::zeros({layout.rows(), x.size(0)}, x.options());
  rows[0].copy_(x);
  rows[1].fill_(1);
  return {rows, layout};
}

TEST(NnSpline, KnotsBeginAndEndAsAsked) {
  const auto knots = uniform_knots(4, 2, 1, 3, torch::kFloat64);
  EXPECT_TRUE(near(knots,
                   torch::tensor({0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0},
                                 torch::kFloat64),
                   kFloat64));
  const auto narrow = uniform_knots(7, 3, -0.1, 0.3, torch::kFloat64);
  EXPECT_EQ(narrow[3].item<double>(), -0.1);
  EXPECT_EQ(narrow[10].item<double>(), 0.3);
}

TEST(NnSpline, CubicAtKnotsAndMiddles) {
  // At a knot 1/6, 2/3, 1/6; in the middle of an interval 1, 23, 23, 1 of 48.
  const auto basis =
      values(torch::tensor({-1.0, -0.8}, torch::kFloat64), 3).mul(48);
  EXPECT_TRUE(near(basis,
                   torch::tensor({{8.0, 32.0, 8.0, 0.0, 0.0, 0.0, 0.0, 0.0},
                                  {1.0, 23.0, 23.0, 1.0, 0.0, 0.0, 0.0, 0.0}},
                                 torch::kFloat64),
                   {1e-12, 1e-12}));
}

class NnSplineDegree : public ::testing::TestWithParam<int64_t> {};
INSTANTIATE_TEST_SUITE_P(Nn, NnSplineDegree, ::testing::Values(0, 1, 2, 3, 5));

TEST_P(NnSplineDegree, SumsToOneInsideWithItsEnds) {
  const auto x = torch::linspace(-1, 1, 101, torch::kFloat64);
  const auto basis = values(x, GetParam());
  EXPECT_EQ(basis.size(-1), kIntervals + GetParam());
  // The last of degree 0 ends before 1: no step lies beyond the grid.
  const int64_t count = GetParam() == 0 ? 100 : 101;
  EXPECT_TRUE(near(basis.sum(-1).narrow(0, 0, count),
                   torch::ones({count}, torch::kFloat64), kFloat64));
}

TEST_P(NnSplineDegree, IsPositiveOnItsIntervalsAndZeroElsewhere) {
  const int64_t degree = GetParam();
  const auto x = random({400}, "x") * 4;
  const auto knots = knots_of(degree);
  const auto basis = values(x, degree);
  for (int64_t i = 0; i < basis.size(-1); ++i) {
    const auto inside =
        torch::logical_and(x > knots[i], x < knots[i + degree + 1]);
    EXPECT_TRUE(torch::equal(basis.select(-1, i) > 0, inside)) << i;
  }
}

TEST_P(NnSplineDegree, ReproducesPolynomials) {
  // Marsden: (y - x)ᵖ = Σ B_i(x) Π (y - t_i+j), j = 1 … p, for every y; the
  // powers of p + 1 different y span all polynomials of degree p.
  const int64_t degree = GetParam();
  const auto x = random({50}, "x");
  const auto basis = values(x, degree);
  const auto knots = knots_of(degree);
  for (int64_t n = 0; n <= degree; ++n) {
    const double y = 0.7 * static_cast<double>(n) - 1.1;
    auto weights = torch::ones({basis.size(-1)}, torch::kFloat64);
    for (int64_t j = 1; j <= degree; ++j) {
      weights = weights * (y - knots.narrow(0, j, basis.size(-1)));
    }
    EXPECT_TRUE(near(torch::matmul(basis, weights), torch::pow(y - x, degree),
                     {1e-11, 1e-12}));
  }
}

TEST_P(NnSplineDegree, DerivativesAreThoseOfDifferences) {
  const int64_t degree = GetParam();
  const auto knots = knots_of(degree);
  EXPECT_TRUE(testing::derivatives_are_differences(
      [&](const Jet& x) { return spline_basis(x, knots, degree); },
      {random({60, 1, 1}, "x") * 1.8, torch::ones({1, 1}, torch::kFloat64)},
      std::max<int64_t>(degree, 1), {1e-6, 1e-6}));
}

TEST_P(NnSplineDegree, OrdersBeyondTheDegreeAreZero) {
  const int64_t degree = GetParam();
  const auto rows = spline_basis(moving(random({20}, "x"), degree + 2),
                                 knots_of(degree), degree)
                        .rows();
  EXPECT_EQ(rows.size(0), degree + 3);
  EXPECT_EQ(rows.slice(0, degree + 1).abs().max().item<double>(), 0);
  EXPECT_GT(rows[degree].abs().max().item<double>(), 0);
}

TEST(NnSpline, ComposesWithACurvedArgument) {
  // B(x(s)) for x = x_0 + x_1 s + x_2 s² + x_3 s³ by nested reverse mode.
  const auto series = random({4, 6}, "series");
  const auto basis = spline_basis(Jet(series, JetLayout({3})), knots_of(3), 3);
  auto s = torch::zeros({6}, torch::kFloat64).set_requires_grad(true);
  const auto x = series[0] + s * (series[1] + s * (series[2] + s * series[3]));
  const auto all = values(x, 3);
  for (int64_t i = 0; i < all.size(-1); ++i) {
    auto u = all.select(-1, i);
    double factorial = 1;
    for (int64_t k = 1; k <= 3; ++k) {
      u = torch::autograd::grad({u.sum()}, {s}, {}, true, true)[0];
      factorial *= static_cast<double>(k);
      EXPECT_TRUE(
          near(basis.rows()[k].select(-1, i) * factorial, u, {1e-10, 1e-11}));
    }
  }
}

TEST(NnSpline, GradientOfCoefficientsAgainstDifferences) {
  const auto weights = random({4, 5, 8}, "weights");
  const auto f = [&](const Tensor& series) {
    return (spline_basis(Jet(series, JetLayout({2, 1})), knots_of(3), 3)
                .rows() *
            weights)
        .sum();
  };
  EXPECT_TRUE(gradient_is_right(f, random({4, 5}, "series"), kDifferences));
}

TEST(NnSpline, EveryInputMayHaveItsOwnKnots) {
  const auto x = random({7, 2}, "x");
  const auto other = uniform_knots(kIntervals, 3, -2, 1.5, torch::kFloat64);
  const auto both =
      spline_basis(Jet::constant(x), torch::stack({knots_of(3), other}), 3)
          .value();
  EXPECT_TRUE(torch::equal(both.select(1, 0), values(x.select(1, 0), 3)));
  EXPECT_TRUE(torch::equal(
      both.select(1, 1),
      spline_basis(Jet::constant(x.select(1, 1)), other, 3).value()));
}

TEST(NnSpline, RefusesTooFewKnots) {
  const auto x = Jet::constant(random({2}, "x"));
  EXPECT_THROW(spline_basis(x, torch::arange(4.0, torch::kFloat64), 3),
               std::invalid_argument);
  EXPECT_THROW(uniform_knots(0, 3, -1, 1, torch::kFloat64),
               std::invalid_argument);
  EXPECT_THROW(uniform_knots(5, 3, 1, 1, torch::kFloat64),
               std::invalid_argument);
}

}  // namespace
}  // namespace propagator::nn
