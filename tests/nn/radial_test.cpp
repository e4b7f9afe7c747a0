#include "propagator/nn/radial.h"

#include <torch/utils.h>

#include <cmath>

#include "jet_checks.h"
#include "testing.h"

namespace propagator::nn {
namespace {

using autodiff::Jet;
using autodiff::JetLayout;
using testing::random;
using torch::Tensor;

constexpr Radial kAllRadials[] = {Radial::kSquaredExponential,
                                  Radial::kMatern52, Radial::kThinPlate,
                                  Radial::kCubic};

// Of a distance, as the class comment has it.
double plain_radial(Radial radial, double r) {
  switch (radial) {
    case Radial::kSquaredExponential:
      return std::exp(-r * r / 2);
    case Radial::kMatern52:
      return (1 + std::sqrt(5.) * r + 5 * r * r / 3) *
             std::exp(-std::sqrt(5.) * r);
    case Radial::kThinPlate:
      return r > 0 ? r * r * std::log(r) : 0;
    case Radial::kCubic:
      return r * r * r;
  }
  return 0;
}

// Σ_c w_c φ(|x - c|) of points (R; N, T, D), as (R; N, T, 1).
testing::JetMap sum_of(Radial radial, const Tensor& centres,
                       const Tensor& weights) {
  return [=](const Jet& x) {
    const auto flat =
        x.linear([](const Tensor& all) { return all.flatten(1, 2); });
    const auto& rows = x.rows();
    return radial_of(radial, squared_distances(flat, centres))
        .linear([&](const Tensor& phi) {
          return torch::matmul(phi, weights)
              .view({rows.size(0), rows.size(1), rows.size(2), 1});
        });
  };
}

TEST(NnRadial, ValuesAreThoseOfTheFormulas) {
  const auto r = torch::tensor({0., 0.01, 0.5, 1., 3.}, torch::kFloat64);
  for (const auto radial : kAllRadials) {
    const auto values = radial_of(radial, r.square());
    for (int64_t n = 0; n < r.size(0); ++n) {
      EXPECT_NEAR(values[n].item<double>(),
                  plain_radial(radial, r[n].item<double>()), 1e-14);
    }
  }
}

TEST(NnRadial, JetsAreNestedReverseModeAndDifferences) {
  const auto map_of = [](Radial radial) {
    return sum_of(radial, random({6, 2}, "centres"), random({6}, "weights"));
  };
  const testing::MovingPoints at{
      random({5, 1, 2}, "points"),
      torch::tensor({{1., 0.}, {0., 1.}, {0.7, -0.4}}, torch::kFloat64)};
  for (const auto radial : kAllRadials) {
    EXPECT_TRUE(
        testing::derivatives_are_nested(map_of(radial), at, 4, {1e-9, 1e-8}));
    EXPECT_TRUE(testing::derivatives_are_differences(map_of(radial), at, 2,
                                                     {1e-6, 1e-6}));
  }
}

TEST(NnRadial, TheSlopeIsTheDerivativeByS) {
  const auto s = random({7}, "s").abs() + 0.1;
  const double h = 1e-6;
  for (const auto radial : kAllRadials) {
    EXPECT_TRUE(testing::near(
        radial_slope(radial, s),
        (radial_of(radial, s + h) - radial_of(radial, s - h)) / (2 * h),
        testing::kDifferences));
  }
}

TEST(NnRadial, OnACentreDerivativesAreFiniteAndThoseThatExistAreRight) {
  // Second derivatives at r = 0: those of exp(-s/2), of Matérn's
  // 1 - 5/6 s + …, and of r³; that of r² log r does not exist.
  const auto centre = torch::tensor({{0.25, -0.5}}, torch::kFloat64);
  const JetLayout layout({4});
  const auto x =
      Jet::moving(centre, torch::tensor({{1., 0.}}, torch::kFloat64), layout);
  const double second[] = {-1, -5. / 3, 0, 0};
  const double fourth[] = {3, 25, 0, 0};
  for (size_t n = 0; n < std::size(kAllRadials); ++n) {
    const auto phi = radial_of(kAllRadials[n], squared_distances(x, centre));
    const auto rows = phi.rows().flatten();
    EXPECT_TRUE(torch::isfinite(rows).all().item<bool>());
    EXPECT_EQ(rows[1].item<double>(), 0);
    EXPECT_NEAR(2 * rows[2].item<double>(), second[n], 1e-14);
    EXPECT_NEAR(24 * rows[4].item<double>(), fourth[n], 1e-12);
  }
}

TEST(NnRadial, DerivativesAreContinuousToTheSmoothnessAndNoFurther) {
  const auto derivative = [](Radial radial, int64_t order, double x) {
    const auto moving =
        Jet::moving(torch::full({1, 1}, x, torch::kFloat64),
                    torch::ones({1, 1}, torch::kFloat64), JetLayout({order}));
    const auto centre = torch::zeros({1, 1}, torch::kFloat64);
    return radial_of(radial, squared_distances(moving, centre))
        .rows()[order]
        .item<double>();
  };
  for (const auto radial :
       {Radial::kMatern52, Radial::kThinPlate, Radial::kCubic}) {
    const auto order = smoothness_of(radial);
    const double on = derivative(radial, order, 0);
    EXPECT_NEAR(derivative(radial, order, 1e-9), on, 1e-6);
    EXPECT_NEAR(derivative(radial, order, -1e-9), on, 1e-6);
    if (radial == Radial::kMatern52) continue;  // no further coefficients
    EXPECT_GT(std::abs(derivative(radial, order + 1, 1e-9) -
                       derivative(radial, order + 1, 0)),
              0.5);
  }
  EXPECT_EQ(smoothness_of(Radial::kSquaredExponential), -1);
}

}  // namespace
}  // namespace propagator::nn
