#include "propagator/kernels/encoder/causal_attention.h"

#include <torch/autograd.h>

#include <limits>

#include "testing.h"

namespace propagator::kernels {
namespace {

using propagator::testing::gradient_is_right;
using propagator::testing::kFloat64;
using propagator::testing::near;
using propagator::testing::random;

struct CausalCase {
  int64_t tokens, prefix;
  bool sees_itself;
};

class KernelsCausalAttention : public ::testing::TestWithParam<CausalCase> {};

TEST_P(KernelsCausalAttention, EqualsMaskedProductInValueAndGradients) {
  const auto [tokens, prefix, sees_itself] = GetParam();
  std::vector<torch::Tensor> inputs;
  for (const char* name : {"q", "k", "v"}) {
    inputs.push_back(random({2, 3, tokens, 4}, name).set_requires_grad(true));
  }
  const auto fast =
      causal_attention(inputs[0], inputs[1], inputs[2], prefix, sees_itself);
  const auto mask =
      causal_mask(tokens, prefix, sees_itself, inputs[0].options());
  const auto plain =
      masked_attention(inputs[0], inputs[1], inputs[2], mask.detach());
  EXPECT_TRUE(near(fast, plain, kFloat64));
  const auto cotangent = random({2, 3, tokens, 4}, "cotangent");
  const auto g1 = torch::autograd::grad({fast}, inputs, {cotangent});
  const auto g2 = torch::autograd::grad({plain}, inputs, {cotangent});
  for (size_t i = 0; i < 3; ++i) EXPECT_TRUE(near(g1[i], g2[i], kFloat64));
}

// 150 tokens make three blocks of queries, the last one short.
INSTANTIATE_TEST_SUITE_P(KernelsShapes, KernelsCausalAttention,
                         ::testing::Values(CausalCase{150, 5, false},
                                           CausalCase{150, 6, true},
                                           CausalCase{64, 5, false},
                                           CausalCase{7, 3, true},
                                           CausalCase{70, 68, true}));

TEST(KernelsCausalAttentionMask, IsTheDocumentsFigure17) {
  // Ten frames of which five are visible, as printed there.
  const auto mask = causal_mask(10, 5, false, torch::kFloat64);
  for (int64_t i = 0; i < 10; ++i) {
    for (int64_t j = 0; j < 10; ++j) {
      const bool seen = j < 5 || j < i;
      EXPECT_EQ(mask[i][j].item<double>(),
                seen ? 0 : -std::numeric_limits<double>::infinity());
    }
  }
}

TEST(KernelsCausalAttentionMask, GradientAgainstDifferences) {
  const auto k = random({1, 2, 6, 3}, "k"), v = random({1, 2, 6, 3}, "v");
  const auto f = [&](const torch::Tensor& q) {
    return causal_attention(q, k, v, 2, true).square().sum();
  };
  EXPECT_TRUE(gradient_is_right(f, random({1, 2, 6, 3}, "q")));
}

}  // namespace
}  // namespace propagator::kernels
