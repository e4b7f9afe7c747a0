#include "propagator/tasks/reconstruct/posterior.h"

#include <cmath>

#include "testing.h"

namespace propagator::tasks {
namespace {

using testing::random;
using torch::Tensor;

TEST(TasksPosterior, IsTheInverseOfTheNormalEquations) {
  const auto j = random({9, 40}, "jacobian");  // (P, R)
  const auto inverse = torch::inverse(j.mm(j.t()));
  const auto found = posterior_of(j, 4, 2, 15);
  for (int64_t k = 0; k < 2; ++k) {
    const double variance = inverse[4 + k][4 + k].item<double>();
    EXPECT_NEAR(found.deviations[k].item<double>(), std::sqrt(variance),
                1e-8 * std::sqrt(variance));
  }
  const auto read = j.slice(1, 25);
  const double used = read.t().mm(inverse).mm(read).trace().item<double>();
  EXPECT_NEAR(found.used, used, 1e-8 * used);
}

// Weights that change nothing, and far more of them than residuals, take
// nothing away from what is known of the sought.
TEST(TasksPosterior, WeightsThatChangeNothingDoNotMatter) {
  const auto j = random({3, 40}, "jacobian");
  const auto alone = posterior_of(j, 2, 1, 20);
  const auto padded = posterior_of(
      torch::cat({torch::zeros({30, 40}, torch::kFloat64), j}), 32, 1, 20);
  EXPECT_NEAR(padded.deviations[0].item<double>(),
              alone.deviations[0].item<double>(), 1e-6);
  EXPECT_NEAR(padded.used, alone.used, 1e-6);
}

TEST(TasksPosterior, SaysWhatNothingDetermines) {
  auto j = random({5, 30}, "jacobian");
  // One that moves nothing, beside one that does.
  j[3].zero_();
  auto found = posterior_of(j, 3, 2, 10);
  EXPECT_TRUE(std::isinf(found.deviations[0].item<double>()));
  EXPECT_TRUE(std::isfinite(found.deviations[1].item<double>()));
  // Two of which only the sum matters.
  j[3].copy_(j[4]);
  found = posterior_of(j, 3, 2, 10);
  EXPECT_TRUE(torch::isinf(found.deviations).all().item<bool>());
  // One that a weight can make up for.
  j[3].copy_(2 * j[0]);
  found = posterior_of(j, 3, 1, 10);
  EXPECT_TRUE(std::isinf(found.deviations[0].item<double>()));
}

}  // namespace
}  // namespace propagator::tasks
