#include "propagator/nn/radial_system.h"

#include <torch/utils.h>

#include "propagator/nn/radial.h"
#include "testing.h"

namespace propagator::nn {
namespace {

using testing::random;
using torch::Tensor;

Tensor cubic_of(const Tensor& a, const Tensor& b) {
  return radial_of(Radial::kCubic, squared_distances(a, b));
}

Tensor radial_tail(const Tensor& x) {
  return torch::cat({torch::ones({x.size(0), 1}, torch::kFloat64), x}, 1);
}

// The system of weights and tail, as it stands in the textbook.
RadialSystem::Solution by_blocks(const Tensor& x, const Tensor& y,
                                 double smoothing) {
  const int64_t m = x.size(0), t = x.size(1) + 1;
  auto a = torch::zeros({m + t, m + t}, torch::kFloat64);
  a.slice(0, 0, m).slice(1, 0, m).copy_(
      cubic_of(x, x) + smoothing * torch::eye(m, torch::kFloat64));
  a.slice(0, 0, m).slice(1, m).copy_(radial_tail(x));
  a.slice(0, m).slice(1, 0, m).copy_(radial_tail(x).t());
  const auto all = torch::mv(torch::inverse(a),
                             torch::cat({y, torch::zeros({t}, y.options())}));
  return {all.slice(0, 0, m), all.slice(0, m)};
}

Tensor radial_answer(const RadialSystem::Solution& with, const Tensor& x,
                     const Tensor& at) {
  return torch::mv(cubic_of(at, x), with.weights) +
         torch::mv(radial_tail(at), with.tail);
}

TEST(NnRadialSystem, SolvesTheSystemOfWeightsAndTail) {
  const auto x = random({15, 2}, "radial x"), y = random({15}, "radial y");
  const RadialSystem system(cubic_of(x, x), x);
  for (const double smoothing : {0., 0.01, 1.}) {
    const auto solution = system.solve(y, smoothing);
    const auto expected = by_blocks(x, y, smoothing);
    EXPECT_TRUE(
        testing::near(solution.weights, expected.weights, {1e-9, 1e-9}));
    EXPECT_TRUE(testing::near(solution.tail, expected.tail, {1e-9, 1e-9}));
  }
}

TEST(NnRadialSystem, LeavesEachReadingOutAsARefitWithoutItWould) {
  const auto x = random({15, 2}, "radial x"), y = random({15}, "radial y");
  const RadialSystem system(cubic_of(x, x), x);
  for (const double smoothing : {0., 0.01}) {
    const auto errors = system.leave_one_out(y, smoothing);
    for (int64_t n = 0; n < 15; ++n) {
      const auto without = [n](const Tensor& all) {
        return torch::cat({all.slice(0, 0, n), all.slice(0, n + 1)});
      };
      const auto others = without(x);
      const auto missed =
          y[n] - radial_answer(by_blocks(others, without(y), smoothing), others,
                               x.slice(0, n, n + 1))[0];
      EXPECT_NEAR(errors[n].item<double>(), missed.item<double>(), 1e-8);
    }
  }
}

TEST(NnRadialSystem, TwoReadingsOfOnePlaceAreAveraged) {
  auto x = random({9, 2}, "radial x").clone();
  auto y = random({9}, "radial y").clone();
  x[8].copy_(x[0]);
  const auto solution = RadialSystem(cubic_of(x, x), x).solve(y, 0);
  const auto at = radial_answer(solution, x, x);
  EXPECT_TRUE(testing::near(at.slice(0, 1, 8), y.slice(0, 1, 8), {0, 1e-9}));
  EXPECT_NEAR(at[0].item<double>(), ((y[0] + y[8]) / 2).item<double>(), 1e-9);
}

TEST(NnRadialSystem, TooFewSensorsForATailAreEnoughForAnAnswer) {
  const auto x = torch::tensor({{0.2, 0.1}, {0.4, 0.3}}, torch::kFloat64);
  const auto y = torch::tensor({1., 3.}, torch::kFloat64);
  const auto solution = RadialSystem(cubic_of(x, x), x).solve(y, 0);
  EXPECT_TRUE(testing::near(radial_answer(solution, x, x), y, {0, 1e-12}));
}

}  // namespace
}  // namespace propagator::nn
