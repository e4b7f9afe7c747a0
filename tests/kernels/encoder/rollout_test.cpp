// The two kernels of a cached rollout.

#include "propagator/kernels/encoder/cached_attention.h"
#include "propagator/kernels/encoder/few_rows_linear.h"
#include "testing.h"

namespace propagator::kernels {
namespace {

using propagator::testing::kFloat64;
using propagator::testing::near;
using propagator::testing::random;
using propagator::testing::Tolerance;

constexpr Tolerance kSingle{1e-5, 1e-5};

TEST(KernelsFewRowsLinear, ByHand) {
  const auto x = torch::tensor({{1.0, 2.0}, {3.0, -1.0}}, torch::kFloat64);
  const auto w =
      torch::tensor({{1.0, 1.0}, {0.5, 2.0}, {0.0, -1.0}}, torch::kFloat64);
  const auto b = torch::tensor({10.0, 0.0, 1.0}, torch::kFloat64);
  const auto expected =
      torch::tensor({{13.0, 4.5, -1.0}, {12.0, -0.5, 2.0}}, torch::kFloat64);
  EXPECT_TRUE(near(few_rows_linear(x, w, b), expected, kFloat64));
}

TEST(KernelsFewRowsLinear, EqualsReferenceForOddSizes) {
  for (const auto type : {torch::kFloat64, torch::kFloat32}) {
    for (const int64_t rows : {1, 3, 4, 9}) {
      for (const int64_t inputs : {1, 16, 37, 512}) {
        const auto x = random({rows, inputs}, "x").to(type);
        const auto w = random({131, inputs}, "w").to(type);
        const auto b = random({131}, "b").to(type);
        const auto tolerance = type == torch::kFloat64 ? kFloat64 : kSingle;
        EXPECT_TRUE(near(few_rows_linear(x, w, b),
                         few_rows_linear_reference(x, w, b), tolerance));
        EXPECT_TRUE(near(few_rows_linear(x, w, {}),
                         few_rows_linear_reference(x, w, {}), tolerance));
      }
    }
  }
}

TEST(KernelsCachedAttention, OneKeyGivesItsValue) {
  const auto q = random({2, 3, 1, 4}, "q"), k = random({2, 3, 5, 4}, "k");
  const auto v = random({2, 3, 5, 4}, "v");
  EXPECT_TRUE(near(cached_attention(q, k, v, 1), v.narrow(2, 0, 1), kFloat64));
}

TEST(KernelsCachedAttention, EqualsReferenceAndIgnoresTheRestOfTheCache) {
  for (const auto type : {torch::kFloat64, torch::kFloat32}) {
    for (const int64_t depth : {3, 16, 32}) {
      const auto q = 3 * random({2, 3, 1, depth}, "q").to(type);
      auto k = random({2, 3, 50, depth}, "k").to(type);
      auto v = random({2, 3, 50, depth}, "v").to(type);
      const auto tolerance = type == torch::kFloat64 ? kFloat64 : kSingle;
      const auto expected = cached_attention_reference(q, k, v, 41);
      k.slice(2, 41).fill_(1e30);
      v.slice(2, 41).fill_(1e30);
      for (const auto& device : propagator::testing::devices()) {
        const auto got =
            cached_attention(q.to(device), k.to(device), v.to(device), 41);
        EXPECT_TRUE(near(got.cpu(), expected, tolerance)) << device;
      }
    }
  }
}

TEST(KernelsCachedAttention, LargeScoresDoNotOverflow) {
  const auto q = torch::full({1, 1, 1, 4}, 1e3, torch::kFloat32);
  const auto k = torch::stack({torch::full({4}, 1e2), torch::full({4}, -1e2)})
                     .view({1, 1, 2, 4});
  const auto v = torch::arange(8, torch::kFloat32).view({1, 1, 2, 4});
  EXPECT_TRUE(near(cached_attention(q, k, v, 2), v.narrow(2, 0, 1), kSingle));
}

}  // namespace
}  // namespace propagator::kernels
