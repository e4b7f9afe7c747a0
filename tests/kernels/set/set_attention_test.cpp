#include "propagator/kernels/set/set_attention.h"

#include <ATen/Parallel.h>
#include <torch/utils.h>

#include <cmath>
#include <limits>

#include "propagator/kernels/exp.h"
#include "testing.h"

namespace propagator::kernels {
namespace {

using testing::gradient_is_right;
using testing::kFloat32;
using testing::kFloat64;
using testing::near;
using testing::random;

// Depths of head of two and four vectors, and 3, which has no kernel.
struct SetCase {
  int64_t tokens, depth, wanted;
};
constexpr SetCase kCases[] = {{9, 8, 9}, {9, 8, 1}, {5, 16, 3}, {4, 3, 4}};

torch::Tensor packed(const SetCase& c) {
  return 2 * random({3, c.tokens, 3 * 2 * c.depth}, "qkv");
}

SetAttentionOptions options(const SetCase& c) {
  auto padding = random({3, c.tokens}, "padding") > 0.2;
  padding.select(1, 0).fill_(false);
  return {2, c.wanted, padding,
          random({3, 2, c.wanted, c.tokens}, "factors") + 1};
}

TEST(KernelsSetAttention, IsThatOfPlainOperations) {
  for (const auto& c : kCases) {
    auto o = options(c);
    for (int part = 0; part < 3; ++part) {  // also without factors and padding
      if (part == 1) o.factors = torch::Tensor();
      if (part == 2) o.padding = torch::Tensor();
      EXPECT_TRUE(near(set_attention(packed(c), o),
                       set_attention_reference(packed(c), o), kFloat64));
    }
    o = options(c);
    const auto expected = set_attention_reference(packed(c), o);
    o.factors = o.factors.to(torch::kFloat32);
    EXPECT_TRUE(near(set_attention(packed(c).to(torch::kFloat32), o), expected,
                     kFloat32));
  }
}

TEST(KernelsSetAttention, GradientIsThatOfDifferences) {
  for (const auto& c : kCases) {
    const auto o = options(c);
    const auto cotangent = random({3, c.wanted, 2 * c.depth}, "cotangent");
    EXPECT_TRUE(gradient_is_right(
        [&](const torch::Tensor& x) {
          return (set_attention(x, o) * cotangent).sum();
        },
        packed(c)));
  }
}

TEST(KernelsSetAttention, PaddingLeavesEveryBit) {
  for (const auto& c : kCases) {
    const auto o = options(c);
    const auto qkv = packed(c);
    // Only keys and values: padded tokens still ask.
    const auto moved = qkv.clone();
    moved.slice(2, 2 * c.depth)
        .add_(o.padding.unsqueeze(2) * random({3, c.tokens, 1}, "moved") * 50);
    EXPECT_TRUE(torch::equal(set_attention(qkv, o), set_attention(moved, o)));
  }
}

TEST(KernelsSetAttention, SmallSetsHaveAKernelAndThreadsDoNotMatter) {
  const SetCase large{60, 8, 60};
  EXPECT_FALSE(has_set_attention(packed(large), 2));
  EXPECT_TRUE(has_set_attention(packed(kCases[0]), 2));
  const int threads = at::get_num_threads();
  const auto qkv = random({70, 9, 48}, "many");
  at::set_num_threads(1);
  const auto one = set_attention(qkv, {2, 9});
  at::set_num_threads(2);
  EXPECT_TRUE(torch::equal(set_attention(qkv, {2, 9}), one));
  at::set_num_threads(threads);
}

TEST(KernelsExp, IsRightToTwoUnitsInTheLastPlace) {
  double worst = 0;
  for (float x = 0; x > -87; x -= 0.0137f) {
    const double exact = std::exp(static_cast<double>(x));
    worst = std::max(worst, std::abs(exp_of_negative(x) / exact - 1));
  }
  EXPECT_LT(worst, 2 * std::numeric_limits<float>::epsilon());
  EXPECT_EQ(exp_of_negative(-std::numeric_limits<float>::infinity()), 0);
  EXPECT_EQ(exp_of_negative(0.f), 1);
  EXPECT_EQ(exp_of_negative(-1e30f), 0);
}

}  // namespace
}  // namespace propagator::kernels
