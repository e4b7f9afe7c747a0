#include "propagator/tasks/density/targets.h"

#include <torch/utils.h>

#include <cmath>

#include "propagator/core/error.h"
#include "testing.h"

namespace propagator::tasks {
namespace {

using enum TargetName;
using torch::Tensor;

class TasksTarget : public ::testing::TestWithParam<TargetName> {
 protected:
  Target target_{TargetOptions{.name = GetParam(), .variables = 2}};
};
INSTANTIATE_TEST_SUITE_P(Tasks, TasksTarget,
                         ::testing::Values(kLecture, kRings, kCheckerboard,
                                           kChain));

// By cells of a square that has all of it.
TEST_P(TasksTarget, IntegratesToOneAndHasItsEntropy) {
  const int64_t cells = 1500;
  const double reach = 25, edge = 2 * reach / static_cast<double>(cells);
  const auto along =
      (torch::arange(cells, torch::kFloat64) + 0.5) * edge - reach;
  const auto mesh = torch::meshgrid({along, along}, "ij");
  const auto log_p =
      target_.log_prob(torch::stack({mesh[0].flatten(), mesh[1].flatten()}, 1));
  const auto p = log_p.exp() * edge * edge;
  EXPECT_NEAR(p.sum().item<double>(), 1, 0.02);
  const double entropy = -(p * log_p.clamp_min(-800)).sum().item<double>();
  EXPECT_NEAR(entropy, target_.entropy(), 0.04);
}

// The mean log density of samples is minus the entropy, which a sampler of
// another distribution does not give.
TEST_P(TasksTarget, SamplesAreItsOwn) {
  const int64_t count = 100000;
  const auto log_p =
      target_.log_prob(target_.sample(count, RandomStream(1, "samples")));
  const double error = log_p.std().item<double>() / std::sqrt(count);
  EXPECT_NEAR(log_p.mean().item<double>(), -target_.entropy(),
              5 * error + 1e-9);
}

TEST_P(TasksTarget, OtherStreamsGiveOtherSamples) {
  const auto draw = [&](const char* name) {
    return target_.sample(5, RandomStream(1, name));
  };
  EXPECT_TRUE(torch::equal(draw("a"), draw("a")));
  EXPECT_FALSE(torch::equal(draw("a"), draw("b")));
}

TEST(TasksTargets, AChainHasAnyNumberOfVariables) {
  const Target target({.name = kChain, .variables = 32});
  EXPECT_EQ(target.names().size(), 32u);
  const auto x = target.sample(20000, RandomStream(1, "samples"));
  ASSERT_EQ(x.size(1), 32);
  const auto log_p = target.log_prob(x);
  EXPECT_NEAR(log_p.mean().item<double>(), -target.entropy(),
              5 * log_p.std().item<double>() / std::sqrt(20000.0));
}

TEST(TasksTargets, NoneIsNothingToLearnFrom) {
  const auto text = testing::thrown<ConfigError>([] { Target({}); });
  EXPECT_NE(text.find("there is nothing to learn from"), std::string::npos);
}

}  // namespace
}  // namespace propagator::tasks
