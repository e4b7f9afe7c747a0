#include "propagator/nn/rational_spline.h"

#include <torch/autograd.h>
#include <torch/utils.h>

#include "testing.h"

namespace propagator::nn {
namespace {

using testing::near;
using testing::random;
using torch::Tensor;

const RationalSplineOptions kFive{.bins = 5, .reach = 2};

// Inside and outside.
Tensor numbers() { return 3 * random({40}, "x"); }

Tensor bent() { return 2 * random({40, kFive.parameters()}, "parameters"); }

TEST(NnRationalSpline, ZerosAreTheIdentity) {
  const auto zeros = torch::zeros({40, kFive.parameters()}, torch::kFloat64);
  const auto y = rational_spline(numbers(), zeros, kFive);
  EXPECT_TRUE(near(y.value, numbers(), {1e-12, 1e-12}));
  EXPECT_TRUE(near(y.log_slope, torch::zeros_like(y.value), {0, 1e-12}));
}

TEST(NnRationalSpline, ItsInverseGoesBack) {
  const auto y = rational_spline(numbers(), bent(), kFive);
  const auto x = inverse_rational_spline(y.value, bent(), kFive);
  EXPECT_TRUE(near(x.value, numbers(), {1e-9, 1e-9}));
  EXPECT_TRUE(near(x.log_slope, -y.log_slope, {1e-8, 1e-8}));
}

TEST(NnRationalSpline, SlopesAreThoseOfReverseMode) {
  const auto x = numbers().requires_grad_();
  const auto y = rational_spline(x, bent(), kFive);
  const auto slope = torch::autograd::grad({y.value.sum()}, {x})[0];
  EXPECT_TRUE((slope > 0).all().item<bool>());
  EXPECT_TRUE(near(y.log_slope, torch::log(slope), {1e-9, 1e-9}));
}

TEST(NnRationalSpline, ValueAndSlopeAreContinuousAtKnotsAndEnds) {
  // Along one spline: neighbours stay neighbours.
  const int64_t count = 40001;
  const auto x = torch::linspace(-2.5, 2.5, count, torch::kFloat64);
  const auto one = bent().narrow(0, 0, 1).expand({count, -1});
  const auto y = rational_spline(x, one, kFive);
  EXPECT_TRUE((y.value.diff() > 0).all().item<bool>());
  EXPECT_LT(y.value.diff().max().item<double>(), 0.02);
  EXPECT_LT(y.log_slope.diff().abs().max().item<double>(), 0.05);
}

TEST(NnRationalSpline, GradientsByParametersAreDifferences) {
  auto p = bent().requires_grad_();
  const auto loss = [&](const Tensor& parameters) {
    const auto y = rational_spline(numbers(), parameters, kFive);
    return (y.value * y.value + y.log_slope).sum();
  };
  const auto by = torch::autograd::grad({loss(p)}, {p})[0];
  const torch::NoGradGuard no_grad;
  for (const int64_t n : {0, 3, 6, 9, 10, 13}) {
    auto step = torch::zeros_like(p);
    step.select(1, n).fill_(1e-6);
    const double difference =
        (loss(p + step) - loss(p - step)).item<double>() / 2e-6;
    EXPECT_NEAR(by.select(1, n).sum().item<double>(), difference,
                1e-6 * (1 + std::abs(difference)))
        << n;
  }
}

}  // namespace
}  // namespace propagator::nn
