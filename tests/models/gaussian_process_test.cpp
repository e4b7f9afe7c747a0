#include "propagator/models/gaussian_process.h"

#include <torch/utils.h>

#include <cmath>

#include "jet_checks.h"
#include "propagator/core/error.h"
#include "propagator/nn/init.h"
#include "propagator/train/checkpoint.h"
#include "testing.h"

namespace propagator::models {
namespace {

using testing::random;
using torch::Tensor;

// Fields 0 and 2 are read, 1 is not; then the log variances of 0 and 2.
const FieldDomain kPlane{.low = {0, -1},
                         .high = {2, 1},
                         .fields = 5,
                         .time = 1,
                         .log_variances_of = {0, 2}};

autodiff::Observations thirty_readings() {
  const auto points =
      torch::stack({1 + random({30}, "gp x"), random({30}, "gp t")}, 1);
  auto readings = torch::full({30, 5}, std::nan(""), torch::kFloat64);
  const auto x = points.select(1, 0), t = points.select(1, 1);
  readings.select(1, 0).copy_(torch::sin(2 * x) * (1 + 0.5 * t) +
                              0.1 * random({30}, "gp noise"));
  // Without noise all that rests on an inverse would be rounding.
  readings.select(1, 2).copy_(torch::cos(x + 2 * t) +
                              0.1 * random({30}, "gp noise 2"));
  readings[4][0] = readings[7][2] = readings[8][2] = std::nan("");
  return {points, readings};
}

GaussianProcessOptions process_with(ProcessKernel kernel) {
  GaussianProcessOptions options;
  options.kernel = kernel;
  options.evaluations = 30;
  return options;
}

std::shared_ptr<GaussianProcess> fitted_process(
    const GaussianProcessOptions& options, const FieldDomain& domain = kPlane) {
  auto net = std::make_shared<GaussianProcess>(options, domain);
  net->to(torch::kFloat64);
  net->observe(thirty_readings());
  return net;
}

const testing::MovingPoints kAskedOfProcess{
    torch::stack({1 + 0.9 * random({6, 1}, "gp px"), random({6, 1}, "gp pt")},
                 -1),
    torch::tensor({{1., 0.}, {0., 1.}, {1., 1.}}, torch::kFloat64)};

// σ² k of two points in the domain's own units.
double covariance_of(ProcessKernel kernel, const Tensor& a, const Tensor& b,
                     const Tensor& lengths) {
  // Half an axis is 1 for both.
  const double r = ((a - b) / lengths).square().sum().sqrt().item<double>();
  return kernel == ProcessKernel::kSquaredExponential
             ? std::exp(-r * r / 2)
             : (1 + std::sqrt(5.) * r + 5 * r * r / 3) *
                   std::exp(-std::sqrt(5.) * r);
}

TEST(ModelsGaussianProcess, MeanAndVarianceAreThoseOfTheDenseFormulas) {
  for (const auto kernel :
       {ProcessKernel::kSquaredExponential, ProcessKernel::kMatern52}) {
    const auto net = fitted_process(process_with(kernel));
    const auto answers = net->values(kAskedOfProcess.points).squeeze(1);
    const auto parameters = net->named_parameters();
    const auto read = thirty_readings();
    for (const int64_t f : {0, 2}) {
      const auto lengths = parameters["lengths"][f];
      const double s2 = parameters["amplitude"][f].item<double>();
      const double noise = parameters["noise"][f].item<double>();
      const auto rows =
          torch::isfinite(read.readings.select(1, f)).nonzero().squeeze(1);
      const auto x = read.points.index_select(0, rows);
      const auto y = read.readings.select(1, f).index_select(0, rows);
      const int64_t n = rows.size(0);
      auto c = torch::zeros({n, n}, torch::kFloat64);
      auto k = torch::zeros({6, n}, torch::kFloat64);
      for (int64_t i = 0; i < n; ++i) {
        for (int64_t j = 0; j < n; ++j) {
          c[i][j] = covariance_of(kernel, x[i], x[j], lengths);
        }
        c[i][i] += noise;
        for (int64_t p = 0; p < 6; ++p) {
          k[p][i] = covariance_of(kernel, kAskedOfProcess.points[p][0], x[i],
                                  lengths);
        }
      }
      const auto inverse = torch::inverse(c);
      EXPECT_NEAR(s2, torch::dot(y, torch::mv(inverse, y)).item<double>() / n,
                  1e-8 * s2);
      const auto mean = torch::mv(k, torch::mv(inverse, y));
      EXPECT_TRUE(testing::near(answers.select(1, f), mean, {1e-8, 1e-8}));
      const auto variance =
          s2 * (1 + noise - (torch::mm(k, inverse) * k).sum(1));
      EXPECT_TRUE(testing::near(answers.select(1, f == 0 ? 3 : 4).exp(),
                                variance, {1e-8, 1e-9}));
    }
    EXPECT_EQ(answers.select(1, 1).abs().max().item<double>(), 0)
        << "a field that is never read is its mean";
  }
}

TEST(ModelsGaussianProcess, FarFromSensorsItIsThePriorAndAtThemItKnowsMost) {
  const auto net = fitted_process(process_with(ProcessKernel::kMatern52));
  const auto far = net->values(torch::full({1, 1, 2}, 1e4, torch::kFloat64));
  EXPECT_EQ(far[0][0][0].item<double>(), 0);
  const auto p = net->named_parameters();
  EXPECT_NEAR(far[0][0][3].item<double>(),
              std::log(p["amplitude"][0].item<double>() *
                       (1 + p["noise"][0].item<double>())),
              1e-9);
  const auto at = net->values(thirty_readings().points.unsqueeze(1));
  EXPECT_LT(at.select(2, 3).max().item<double>(), far[0][0][3].item<double>());
}

TEST(ModelsGaussianProcess, JetsAreNestedReverseModeAndDifferences) {
  for (const auto kernel :
       {ProcessKernel::kSquaredExponential, ProcessKernel::kMatern52}) {
    const auto net = fitted_process(process_with(kernel));
    const auto map = testing::jet_map(*net);
    EXPECT_TRUE(
        testing::derivatives_are_nested(map, kAskedOfProcess, 2, {1e-8, 1e-8}));
    EXPECT_TRUE(testing::derivatives_are_differences(map, kAskedOfProcess, 2,
                                                     {1e-5, 1e-5}));
  }
  // On a sensor too.
  const auto net = fitted_process(process_with(ProcessKernel::kMatern52));
  const auto rows =
      net->forward(autodiff::Jet::moving(thirty_readings().points.unsqueeze(1),
                                         kAskedOfProcess.directions,
                                         autodiff::JetLayout({2, 2, 2})))
          .rows();
  EXPECT_TRUE(torch::isfinite(rows).all().item<bool>());
}

TEST(ModelsGaussianProcess, ItsFileHasTheFitWhateverThePrecision) {
  auto net = fitted_process(process_with(ProcessKernel::kSquaredExponential));
  net->to(torch::kCPU, torch::kFloat32);  // as a run in fp32 does
  auto stored = train::copy_parameters(*net);
  EXPECT_EQ(stored.at("weights").scalar_type(), torch::kFloat64);
  EXPECT_EQ(nn::parameter_count(*net), 0);
  GaussianProcess other(process_with(ProcessKernel::kSquaredExponential),
                        kPlane);
  EXPECT_THROW(other.values(kAskedOfProcess.points), UsageError)
      << "no readings yet";
  train::set_parameters(other, stored, "test");
  EXPECT_TRUE(torch::equal(other.values(kAskedOfProcess.points),
                           net->values(kAskedOfProcess.points)));
  const auto single = other.values(kAskedOfProcess.points.to(torch::kFloat32));
  EXPECT_EQ(single.scalar_type(), torch::kFloat32);
  EXPECT_TRUE(testing::near(single.to(torch::kFloat64),
                            net->values(kAskedOfProcess.points), {1e-5, 1e-5}));
  stored["weights"] = torch::zeros({29, 3}, torch::kFloat64);
  EXPECT_THROW(train::set_parameters(other, stored, "test"), DataError);
}

TEST(ModelsGaussianProcess, ReadingsThatAllAgreeAreTheAnswer) {
  const FieldDomain line{.low = {0}, .high = {1}, .fields = 1};
  GaussianProcess net({}, line);
  net.observe({torch::rand({5, 1}, torch::kFloat64),
               torch::zeros({5, 1}, torch::kFloat64)});
  EXPECT_EQ(net.values(torch::rand({3, 1, 1}, torch::kFloat64))
                .abs()
                .max()
                .item<double>(),
            0);
}

}  // namespace
}  // namespace propagator::models
