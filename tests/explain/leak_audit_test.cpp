#include "propagator/explain/leak_audit.h"

#include "small_heat_former.h"
#include "testing.h"

namespace propagator::explain {
namespace {

using propagator::testing::random;

// Output i is the running sum of inputs 0 … i + `ahead`.
tasks::AuditSubject running_sum(int64_t ahead) {
  return {random({1, 10, 3, 3}, "inputs"),
          [ahead](const torch::Tensor& x) {
            const auto sum = x.cumsum(1);
            return torch::cat(
                {sum.slice(1, ahead), sum.slice(1, 9).expand({1, ahead, 3, 3})},
                1);
          },
          [](int64_t output) { return output + 1; }};
}

TEST(ExplainLeakAudit, CausalSumIsClean) {
  const auto audit = audit_leaks(running_sum(0), 0);
  EXPECT_EQ(audit.leaks, 0);
  EXPECT_EQ(audit.outputs.size(), 10);
  EXPECT_EQ(audit.pairs_checked, 45);
  EXPECT_EQ(audit.largest_hidden, 0);
  EXPECT_GT(audit.largest_visible, 0);
}

TEST(ExplainLeakAudit, OneStepAheadIsFoundAtEveryOutput) {
  const auto audit = audit_leaks(running_sum(1), 0);
  EXPECT_EQ(audit.leaks, 9);  // the last output has nothing left to hide
  EXPECT_GT(audit.largest_hidden, 0.1);
}

TEST(ExplainLeakAudit, SampledOutputsIncludeFirstAndLast) {
  const auto audit = audit_leaks(running_sum(1), 0, 3);
  EXPECT_EQ(audit.outputs.size(), 3);
  EXPECT_EQ(audit.leaks, 2);  // outputs 0 and 4; output 9 cannot leak
}

// The picture's numbers: what output i takes from input i.
TEST(ExplainLeakAudit, TheDiagonalIsThereInAPublishedModelOnly) {
  for (const auto inputs :
       {models::Inputs::kHonest, models::Inputs::kPublished}) {
    for (const auto mask :
         {models::MaskType::kBlock, models::MaskType::kCausal}) {
      const auto model = propagator::testing::make_heat_former(
          propagator::testing::small_options(mask, inputs), {12, 5, 5});
      const auto alpha = torch::full({1}, 0.05, torch::kFloat64);
      const auto audit = audit_leaks(
          {random({1, 12, 5, 5}, "frames"),
           [&](const torch::Tensor& frames) {
             return model->forward(frames, alpha);
           },
           [&](int64_t output) { return model->first_hidden(output); }},
          0);
      ASSERT_EQ(audit.outputs.size(), 12u);
      for (int64_t k = 3; k < 12; ++k) {
        const double own = audit.gradients[k][k].item<double>();
        if (inputs == models::Inputs::kPublished) {
          EXPECT_GT(own, 1e-4) << k;
        } else {
          EXPECT_EQ(own, 0) << k;
        }
      }
      EXPECT_EQ(audit.leaks > 0, inputs == models::Inputs::kPublished);
    }
  }
}

}  // namespace
}  // namespace propagator::explain
