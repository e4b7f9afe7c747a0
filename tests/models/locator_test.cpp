#include "propagator/models/locator.h"

#include <torch/types.h>

#include <cmath>
#include <numbers>

#include "propagator/core/error.h"
#include "small_detector.h"

namespace propagator::models {
namespace {

using testing::gradient_is_right;
using testing::near;
using testing::random;
using testing::thrown;

// Factors with a diagonal between 0.5 and 1.5.
torch::Tensor factors() {
  return random({4, 3, 3}, "below").tril(-1) +
         torch::diag_embed(1 + random({4, 3}, "diagonal") / 2);
}

TEST(ModelsLocator, LikelihoodIsThatOfTheCovariance) {
  const auto l = factors();
  const auto mean = random({4, 3}, "mean"), truth = random({4, 3}, "truth");
  double expected = 0;
  for (int64_t b = 0; b < 4; ++b) {
    const auto covariance = torch::matmul(l[b], l[b].t());
    const auto gap = truth[b] - mean[b];
    const auto square =
        torch::dot(gap, torch::matmul(torch::inverse(covariance), gap));
    const auto volume = torch::logdet(2 * std::numbers::pi * covariance);
    expected += 0.5 * (square + volume).item<double>() / 4;
  }
  EXPECT_NEAR(gaussian_nll({mean, l}, truth).item<double>(), expected, 1e-12);
}

TEST(ModelsLocator, LikelihoodOfAUnitNormalIsKnown) {
  const auto truth = torch::tensor({{1.0, 2.0, -2.0}}, torch::kFloat64);
  const Located located{torch::zeros({1, 3}, torch::kFloat64),
                        torch::eye(3, torch::kFloat64).unsqueeze(0)};
  EXPECT_NEAR(gaussian_nll(located, truth).item<double>(),
              4.5 + 1.5 * std::log(2 * std::numbers::pi), 1e-14);
}

TEST(ModelsLocator, LikelihoodHasTheGradientOfDifferences) {
  const auto mean = random({4, 3}, "mean"), truth = random({4, 3}, "truth");
  EXPECT_TRUE(gradient_is_right(
      [&](const torch::Tensor& m) {
        return gaussian_nll({m, factors()}, truth);
      },
      mean));
  EXPECT_TRUE(gradient_is_right(
      [&](const torch::Tensor& l) {
        return gaussian_nll({mean, l}, truth);
      },
      factors()));
}

TEST(ModelsLocator, LikelihoodNeedsAnUncertainty) {
  const auto mean = random({4, 3}, "mean");
  const auto message = thrown<UsageError>([&] {
    gaussian_nll({mean, {}}, mean);
  });
  EXPECT_NE(message.find("[gaussian_nll]"), std::string::npos);
}

TEST(ModelsLocator, EveryKindIsMadeFromItsOwnOptions) {
  for (const auto& [name, kind] : locators()) {
    const auto options = kind.options();
    config::Schema schema;
    options->describe(schema);
    EXPECT_FALSE(schema.fields().empty()) << name;
    auto model = options->make(testing::small_detector());
    model->initialise(1);
    model->to(torch::kFloat64);
    model->eval();
    const auto located = as_locator(*model).forward(testing::small_hits());
    EXPECT_EQ(located.position.sizes().vec(), (std::vector<int64_t>{5, 3}));
    EXPECT_TRUE(located.position.isfinite().all().item<bool>()) << name;
  }
}

TEST(ModelsLocator, KindsRefuseHitsThatDoNotFit) {
  for (const auto& [name, kind] : locators()) {
    const auto model = kind.options()->make(testing::small_detector());
    const auto message = [&](const std::function<void(Hits&)>& change) {
      auto hits = testing::small_hits();
      change(hits);
      return thrown<UsageError>([&] { model->forward(hits); });
    };
    const auto where = "[" + name + "] expected";
    EXPECT_EQ(message([](Hits& h) { h.times = h.times[0]; }).find(where), 0u);
    EXPECT_EQ(message([](Hits& h) { h.hit = h.hit.slice(1, 1); }).find(where),
              0u);
    EXPECT_EQ(
        message([](Hits& h) { h.positions = h.positions.t(); }).find(where),
        0u);
    EXPECT_NE(message([](Hits& h) {
                h.hit = h.hit.to(torch::kInt32);
              }).find("hit as bool, got Int"),
              std::string::npos);
  }
}

}  // namespace
}  // namespace propagator::models
