#include "propagator/models/radial_basis.h"

#include <torch/utils.h>

#include <cmath>

#include "jet_checks.h"
#include "propagator/core/error.h"
#include "propagator/train/checkpoint.h"
#include "testing.h"

namespace propagator::models {
namespace {

using testing::random;
using torch::Tensor;

const FieldDomain kBox{.low = {0, -1}, .high = {3, 1}, .fields = 3, .time = 1};
constexpr BasisKernel kBasisKernels[] = {
    BasisKernel::kThinPlate, BasisKernel::kCubic, BasisKernel::kGaussian};

Tensor basis_sensors() {
  return torch::stack(
      {1.5 + 1.5 * random({25}, "rbf x"), random({25}, "rbf t")}, 1);
}

// Fields 0 and 1, the latter linear and in part missing; 2 is not read.
autodiff::Observations some_readings() {
  const auto x = basis_sensors().select(1, 0), t = basis_sensors().select(1, 1);
  auto readings = torch::full({25, 3}, std::nan(""), torch::kFloat64);
  readings.select(1, 0).copy_(torch::sin(x) * (t - 0.3));
  readings.select(1, 1).copy_(0.5 + 2 * x - 3 * t);
  readings[3][1] = readings[11][1] = std::nan("");
  return {basis_sensors(), readings};
}

RadialBasisOptions basis_with(BasisKernel kernel) {
  RadialBasisOptions options;
  options.kernel = kernel;
  return options;
}

std::shared_ptr<RadialBasis> fitted_basis(const RadialBasisOptions& options) {
  options.validate(kBox);
  auto net = std::make_shared<RadialBasis>(options, kBox);
  net->to(torch::kFloat64);
  net->observe(some_readings());
  return net;
}

const testing::MovingPoints kAskedOfBasis{
    torch::stack(
        {1.5 + 1.4 * random({6, 1}, "rbf px"), random({6, 1}, "rbf pt")}, -1),
    torch::tensor({{1., 0.}, {0., 1.}, {1., -1.}}, torch::kFloat64)};

TEST(ModelsRadialBasis, GoesThroughItsReadingsAndIsExactForLinearFields) {
  for (const auto kernel : kBasisKernels) {
    auto options = basis_with(kernel);
    options.factors = {"2", "0.5"};
    const auto net = fitted_basis(options);
    const auto at = net->values(basis_sensors().unsqueeze(1)).squeeze(1);
    const auto read = some_readings().readings;
    EXPECT_TRUE(testing::near(at.select(1, 0), read.select(1, 0), {0, 1e-6}))
        << config::name_of(kernel);
    const auto answers = net->values(kAskedOfBasis.points).squeeze(1);
    const auto x = kAskedOfBasis.points.select(2, 0).squeeze(1),
               t = kAskedOfBasis.points.select(2, 1).squeeze(1);
    EXPECT_TRUE(
        testing::near(answers.select(1, 1), 0.5 + 2 * x - 3 * t, {0, 1e-9}))
        << config::name_of(kernel);
    EXPECT_EQ(answers.select(1, 2).abs().max().item<double>(), 0);
  }
}

TEST(ModelsRadialBasis, JetsAreNestedReverseModeAndDifferences) {
  for (const auto kernel : kBasisKernels) {
    auto options = basis_with(kernel);
    // A longer one has weights so large that differences see their rounding.
    if (kernel == BasisKernel::kGaussian) options.length = 0.4;
    const auto net = fitted_basis(options);
    const auto map = testing::jet_map(*net);
    EXPECT_TRUE(
        testing::derivatives_are_nested(map, kAskedOfBasis, 2, {1e-7, 1e-7}));
    EXPECT_TRUE(testing::derivatives_are_differences(map, kAskedOfBasis, 2,
                                                     {1e-5, 1e-5}));
    // On its sensors too.
    const auto rows =
        net->forward(autodiff::Jet::moving(basis_sensors().unsqueeze(1),
                                           kAskedOfBasis.directions,
                                           autodiff::JetLayout({2, 2, 2})))
            .rows();
    EXPECT_TRUE(torch::isfinite(rows).all().item<bool>());
  }
}

TEST(ModelsRadialBasis, OnASensorTheDerivativesAreThoseBesideIt) {
  // As far as they exist: one of thin plates, two of cubic functions.
  for (const auto kernel : {BasisKernel::kThinPlate, BasisKernel::kCubic}) {
    const auto net = fitted_basis(basis_with(kernel));
    const auto order = basis_with(kernel).smoothness();
    const auto derivative = [&](double off) {
      return net
          ->forward(autodiff::Jet::moving(
              basis_sensors().unsqueeze(1) + off, kAskedOfBasis.directions,
              autodiff::JetLayout({order, order, order})))
          .rows();
    };
    EXPECT_TRUE(testing::near(derivative(0), derivative(1e-9), {1e-6, 1e-5}));
  }
}

TEST(ModelsRadialBasis, ChoosesMoreSmoothingWhereThereIsNoise) {
  auto options = basis_with(BasisKernel::kCubic);
  options.choose_smoothing = true;
  const FieldDomain line{.low = {-1}, .high = {1}, .fields = 1};
  const auto x = torch::linspace(-1, 1, 60, torch::kFloat64).unsqueeze(1);
  const auto truth = torch::sin(3 * x);
  const auto off = [&](const RadialBasisOptions& o, double noise) {
    RadialBasis net(o, line);
    net.observe({x, truth + noise * random({60, 1}, "rbf noise")});
    return (net.values(x.unsqueeze(1)).squeeze(1) - truth)
        .square()
        .mean()
        .sqrt()
        .item<double>();
  };
  EXPECT_LT(off(options, 0), 1e-4);
  EXPECT_LT(off(options, 0.3), 0.6 * off(basis_with(BasisKernel::kCubic), 0.3));
}

TEST(ModelsRadialBasis, ItsFileHasTheFit) {
  for (const auto kernel : kBasisKernels) {
    const auto net = fitted_basis(basis_with(kernel));
    const auto stored = train::copy_parameters(*net);
    RadialBasis other(basis_with(kernel), kBox);
    EXPECT_THROW(other.values(kAskedOfBasis.points), UsageError)
        << "no readings yet";
    train::set_parameters(other, stored, "test");
    EXPECT_TRUE(torch::equal(other.values(kAskedOfBasis.points),
                             net->values(kAskedOfBasis.points)));
  }
}

TEST(ModelsRadialBasis, OptionsThatContradictOneAnotherAreRefused) {
  const auto expect_refused = [](const auto& change) {
    RadialBasisOptions options;
    change(options);
    EXPECT_THROW(options.validate(kBox), ConfigError);
  };
  expect_refused([](auto& o) { o.length = 0.5; });
  expect_refused([](auto& o) { o.factors = {"1"}; });
  expect_refused([](auto& o) { o.factors = {"1", "-2"}; });
  expect_refused([](auto& o) { o.factors = {"1", "wide"}; });
  expect_refused([](auto& o) {
    o.choose_smoothing = true;
    o.smoothing = 0.1;
  });
  auto domain = kBox;
  domain.log_variances_of = {0};
  EXPECT_THROW(RadialBasisOptions().validate(domain), ConfigError);
}

}  // namespace
}  // namespace propagator::models
