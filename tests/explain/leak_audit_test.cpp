#include "propagator/explain/leak_audit.h"

#include "testing.h"

namespace propagator::explain {
namespace {

using propagator::testing::random;

// Output i is the running sum of inputs 0 … i + `ahead`.
train::AuditSubject running_sum(int64_t ahead) {
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
  EXPECT_EQ(audit.outputs_checked, 10);
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
  EXPECT_EQ(audit.outputs_checked, 3);
  EXPECT_EQ(audit.leaks, 2);  // outputs 0 and 4; output 9 cannot leak
}

}  // namespace
}  // namespace propagator::explain
