#include "propagator/nn/interpolating_spline.h"

#include <torch/utils.h>

#include "propagator/nn/ridge.h"
#include "testing.h"

namespace propagator::nn {
namespace {

using autodiff::Jet;
using autodiff::JetLayout;
using testing::random;
using torch::Tensor;

Tensor uneven_places() {
  return torch::tensor({-1., -0.7, -0.2, 0.1, 0.5, 0.6, 1.}, torch::kFloat64);
}

TEST(NnInterpolatingSpline, GoesThroughItsValuesAndIsExactForCubics) {
  const auto x = uneven_places();
  const auto values = random({7, 2, 3}, "spline values");
  const auto factors = interpolating_factors(values, x);
  const auto at = interpolating_basis(Jet::constant(x), x).value();
  EXPECT_TRUE(testing::near(torch::matmul(at, factors.flatten(1)),
                            values.flatten(1), {0, 1e-12}));
  const auto cubic = [](const Tensor& p) {
    return 1 - p + 2 * p.square() - 3 * p.pow(3);
  };
  const auto between = random({20}, "spline points");
  const auto of_cubic = interpolating_factors(cubic(x).unsqueeze(1), x);
  EXPECT_TRUE(testing::near(
      torch::matmul(interpolating_basis(Jet::constant(between), x).value(),
                    of_cubic)
          .squeeze(1),
      cubic(between), {0, 1e-12}));
}

TEST(NnInterpolatingSpline, SecondDerivativesAreThoseOfACubicAtTheEndsToo) {
  const auto x = uneven_places();
  const auto factors = interpolating_factors(x.pow(3).unsqueeze(1), x);
  const auto asked = torch::tensor({{-1.}, {0.3}, {1.}}, torch::kFloat64);
  const JetLayout layout({2});
  const auto moving =
      Jet::moving(asked, torch::ones({1, 1}, torch::kFloat64), layout)
          .linear([](const Tensor& rows) { return rows.squeeze(-1); });
  const auto rows =
      torch::matmul(interpolating_basis(moving, x).rows(), factors).squeeze(-1);
  const auto p = asked.squeeze(1);
  EXPECT_TRUE(testing::near(rows[1], 3 * p.square(), {0, 1e-11}));
  EXPECT_TRUE(testing::near(2 * rows[2], 6 * p, {0, 1e-11}));
}

TEST(NnInterpolatingSpline, ThreePlacesAreTooFew) {
  EXPECT_THROW(interpolating_knots(torch::arange(3, torch::kFloat64)),
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
