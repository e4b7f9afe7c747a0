#include "propagator/pde/reference/chebyshev.h"

#include <cmath>

#include "testing.h"

namespace propagator::pde {
namespace {

using testing::near;
using torch::Tensor;

constexpr testing::Tolerance kClose{1e-11, 1e-11};

// 3x⁵ - x² + 2 and its derivative.
Tensor quintic(const Tensor& x) { return 3 * x.pow(5) - x.square() + 2; }
Tensor quintic_slope(const Tensor& x) { return 15 * x.pow(4) - 2 * x; }

TEST(PdeChebyshev, PolynomialsAreExact) {
  for (const auto& nodes :
       {chebyshev_nodes(6), chebyshev_nodes(17), gauss_points(6),
        torch::cat({torch::full({1}, -1, torch::kFloat64), radau_points(6)})}) {
    const auto values = quintic(nodes);
    EXPECT_TRUE(near(torch::mv(differentiation_matrix(nodes), values),
                     quintic_slope(nodes), kClose));
    const auto points = torch::linspace(-1, 1, 23, torch::kFloat64);
    EXPECT_TRUE(near(torch::mv(interpolation_matrix(nodes, points), values),
                     quintic(points), kClose));
  }
}

TEST(PdeChebyshev, InterpolationAtANodeIsItsValue) {
  const auto nodes = chebyshev_nodes(9);
  EXPECT_TRUE(torch::equal(interpolation_matrix(nodes, nodes),
                           torch::eye(9, torch::kFloat64)));
}

TEST(PdeChebyshev, PointsAreTheKnownOnes) {
  const auto points = [](std::vector<double> all) {
    return torch::tensor(all, torch::kFloat64);
  };
  EXPECT_TRUE(near(chebyshev_nodes(1), points({0}), testing::kFloat64));
  EXPECT_TRUE(near(chebyshev_nodes(5),
                   points({-1, -std::sqrt(0.5), 0, std::sqrt(0.5), 1}),
                   testing::kFloat64));
  EXPECT_TRUE(near(gauss_points(1), points({0}), testing::kFloat64));
  EXPECT_TRUE(near(gauss_points(3),
                   points({-std::sqrt(0.6), 0, std::sqrt(0.6)}),
                   testing::kFloat64));
  EXPECT_TRUE(near(radau_points(1), points({1}), testing::kFloat64));
  EXPECT_TRUE(
      near(radau_points(3),
           points({(-1 - std::sqrt(6)) / 5, (-1 + std::sqrt(6)) / 5, 1}),
           testing::kFloat64));
}

TEST(PdeChebyshev, DerivativesOfASineConvergeFast) {
  const auto nodes = chebyshev_nodes(24);
  const auto matrix = differentiation_matrix(nodes);
  const auto second =
      torch::mv(matrix, torch::mv(matrix, torch::sin(3 * nodes)));
  EXPECT_TRUE(near(second, -9 * torch::sin(3 * nodes), {0, 1e-9}));
}

}  // namespace
}  // namespace propagator::pde
