#include "propagator/kernels/encoder/causal_attention.h"

#include <ATen/Parallel.h>
#include <torch/autograd.h>

#include <cmath>
#include <limits>

#include "propagator/core/device.h"
#include "testing.h"

namespace propagator::kernels {
namespace {

using propagator::testing::gradient_is_right;
using propagator::testing::kFloat64;
using propagator::testing::near;
using propagator::testing::random;
using propagator::testing::Tolerance;
using torch::Tensor;

struct CausalCase {
  int64_t batch, tokens, depth, prefix;
  bool sees_itself;
};

// Queries, keys and values, and a gradient of the result.
struct Given {
  std::vector<Tensor> inputs;
  Tensor grad;
};

Given given(int64_t batch, int64_t tokens, int64_t depth) {
  Given one;
  for (const char* name : {"q", "k", "v"}) {
    one.inputs.push_back(random({batch, 3, tokens, depth}, name));
  }
  one.grad = random({batch, 3, tokens, depth}, "grad");
  return one;
}

// The result and its gradients by queries, keys and values.
std::vector<Tensor> results(const Given& one, const auto& attention) {
  std::vector<Tensor> inputs;
  for (const auto& x : one.inputs) {
    inputs.push_back(x.detach().set_requires_grad(true));
  }
  const auto out = attention(inputs[0], inputs[1], inputs[2]);
  auto all = torch::autograd::grad({out}, inputs, {one.grad});
  all.insert(all.begin(), out.detach());
  return all;
}

auto causal(int64_t prefix, bool sees_itself) {
  return [=](const Tensor& q, const Tensor& k, const Tensor& v) {
    return causal_attention(q, k, v, prefix, sees_itself);
  };
}

auto masked(int64_t prefix, bool sees_itself) {
  return [=](const Tensor& q, const Tensor& k, const Tensor& v) {
    return masked_attention(
        q, k, v, causal_mask(q.size(2), prefix, sees_itself, q.options()));
  };
}

void expect_near(const std::vector<Tensor>& got,
                 const std::vector<Tensor>& expected, Tolerance tolerance) {
  ASSERT_EQ(got.size(), expected.size());
  for (size_t n = 0; n < got.size(); ++n) {
    EXPECT_TRUE(near(got[n].to(torch::kFloat64), expected[n], tolerance))
        << "part " << n;
  }
}

void expect_same(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t n = 0; n < a.size(); ++n) {
    EXPECT_TRUE(torch::equal(a[n], b[n])) << "part " << n;
  }
}

class KernelsCausalAttention : public ::testing::TestWithParam<CausalCase> {};

TEST_P(KernelsCausalAttention, EqualsMaskedProductInValueAndGradients) {
  const auto [batch, tokens, depth, prefix, sees_itself] = GetParam();
  auto one = given(batch, tokens, depth);
  const auto plain = results(one, masked(prefix, sees_itself));
  const auto fast = causal(prefix, sees_itself);
  expect_near(results(one, fast), plain, kFloat64);
  {
    // libtorch's autocast leaves float64 alone; the kernel leaves it to tensor
    // operations, in blocks.
    const PrecisionScope scope({torch::kCPU, Precision::kBFloat16});
    expect_near(results(one, fast), plain, kFloat64);
  }
  for (auto& x : one.inputs) x = x.to(torch::kFloat32);
  one.grad = one.grad.to(torch::kFloat32);
  expect_near(results(one, fast), plain, Tolerance{1e-5, 1e-5});
}

// Blocks are of 24 queries, or of 64 in tensor operations; vectors have four or
// eight numbers.
INSTANTIATE_TEST_SUITE_P(KernelsShapes, KernelsCausalAttention,
                         ::testing::Values(CausalCase{2, 150, 4, 5, false},
                                           CausalCase{2, 150, 4, 6, true},
                                           CausalCase{1, 64, 16, 5, false},
                                           CausalCase{2, 7, 8, 3, true},
                                           CausalCase{1, 1, 32, 1, true},
                                           CausalCase{1, 1, 5, 0, true},
                                           CausalCase{1, 24, 20, 0, true},
                                           CausalCase{1, 25, 3, 1, false},
                                           CausalCase{3, 47, 1, 60, false},
                                           CausalCase{2, 70, 32, 68, true}));

TEST(KernelsCausalAttentionForms, TakesRowsWhereverTheyLie) {
  const int64_t prefix = 5;
  const bool sees_itself = true;
  const auto plain = given(2, 50, 8);
  const auto expected = results(plain, causal(prefix, sees_itself));
  auto strided = plain;
  // As a projection of tokens leaves them, with rows apart.
  const auto packed = torch::stack(plain.inputs, 3).transpose(1, 2);
  for (int64_t n = 0; n < 3; ++n) {
    strided.inputs[static_cast<size_t>(n)] =
        packed.contiguous().select(3, n).transpose(1, 2);
  }
  strided.grad = plain.grad.transpose(1, 2).contiguous().transpose(1, 2);
  ASSERT_FALSE(strided.inputs[0].is_contiguous());
  expect_same(results(strided, causal(prefix, sees_itself)), expected);
  // And with the numbers of a row apart.
  for (auto& x : strided.inputs) {
    x = x.transpose(2, 3).contiguous().transpose(2, 3);
  }
  strided.grad = strided.grad.transpose(2, 3).contiguous().transpose(2, 3);
  ASSERT_NE(strided.inputs[0].stride(3), 1);
  expect_same(results(strided, causal(prefix, sees_itself)), expected);
  // A gradient of which all numbers are one.
  const auto ones = torch::ones({1}, torch::kFloat64);
  auto summed = plain;
  summed.grad = ones.expand(plain.grad.sizes());
  auto written = plain;
  written.grad = torch::ones_like(plain.grad);
  expect_same(results(summed, causal(prefix, sees_itself)),
              results(written, causal(prefix, sees_itself)));
}

TEST(KernelsCausalAttentionBits, DoNotDependOnThreads) {
  auto one = given(2, 130, 16);
  for (const auto type : {torch::kFloat64, torch::kFloat32}) {
    for (auto& x : one.inputs) x = x.to(type);
    one.grad = one.grad.to(type);
    const int threads = at::get_num_threads();
    at::set_num_threads(1);
    const auto alone = results(one, causal(5, true));
    at::set_num_threads(2);
    const auto together = results(one, causal(5, true));
    at::set_num_threads(threads);
    expect_same(together, alone);
  }
}

// A training that has left the numbers must not go on as if nothing were.
TEST(KernelsCausalAttentionNaN, ComesOut) {
  const int64_t tokens = 60, bad = 40;
  for (const size_t part : {0, 1, 2}) {
    auto one = given(1, tokens, 8);
    for (auto& x : one.inputs) x = x.to(torch::kFloat32);
    one.inputs[part].select(2, bad).fill_(NAN);
    const auto out =
        causal_attention(one.inputs[0], one.inputs[1], one.inputs[2], 1, true);
    const auto lost = torch::isnan(out).all(3);
    EXPECT_FALSE(lost.narrow(2, 0, 24).any().item<bool>());
    EXPECT_TRUE(lost.select(2, bad).all().item<bool>());
    if (part > 0) {
      EXPECT_TRUE(lost.narrow(2, bad, tokens - bad).all().item<bool>());
    }
  }
}

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
  const auto f = [&](const Tensor& q) {
    return causal_attention(q, k, v, 2, true).square().sum();
  };
  EXPECT_TRUE(gradient_is_right(f, random({1, 2, 6, 3}, "q")));
}

}  // namespace
}  // namespace propagator::kernels
