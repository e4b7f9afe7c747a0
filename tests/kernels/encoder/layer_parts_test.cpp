// The parts of a fused encoder layer, each against plain tensor operations in
// float64, on every device there is.

#include <torch/autograd.h>
#include <torch/utils.h>

#include "propagator/core/torch_compat.h"
#include "propagator/kernels/column_sums.h"
#include "propagator/kernels/encoder/causal_attention.h"
#include "propagator/kernels/encoder/layer_norm.h"
#include "propagator/kernels/encoder/prefix_softmax.h"
#include "propagator/kernels/product.h"
#include "testing.h"

namespace propagator::kernels {
namespace {

using propagator::testing::devices;
using propagator::testing::kFloat64;
using propagator::testing::near;
using propagator::testing::random;
using propagator::testing::Tolerance;
using torch::Tensor;

struct Place {
  torch::Device device;
  torch::ScalarType type;

  Tensor operator()(const Tensor& x) const { return x.to(device, type); }
  Tolerance tolerance() const {
    return type == torch::kFloat64 ? kFloat64 : Tolerance{2e-5, 2e-5};
  }
};

std::vector<Place> places() {
  std::vector<Place> all;
  for (const auto& device : devices()) {
    all.push_back({device, torch::kFloat64});
    all.push_back({device, torch::kFloat32});
  }
  return all;
}

void expect_near(const Tensor& got, const Tensor& expected,
                 const Place& place) {
  EXPECT_TRUE(
      near(got.to(torch::kCPU, torch::kFloat64), expected, place.tolerance()))
      << place.device << " " << place.type;
}

TEST(KernelsProduct, ViewsEpiloguesAndBatches) {
  const auto a = random({3, 20, 12}, "a"), w = random({16, 12}, "w");
  const auto b = random({3, 16, 12}, "b"), bias = random({16}, "bias");
  const auto add = random({3, 20, 16}, "add");
  for (const auto& at : places()) {
    auto out = torch::full({20, 16}, NAN, at(a).options());
    product(out, at(a[1]), at(w).t(), {.bias = at(bias), .relu = true});
    expect_near(out, torch::relu(torch::matmul(a[1], w.t()) + bias), at);

    product(out, at(a[1]), at(w).t(), {.add = at(add[0]), .bias = at(bias)});
    expect_near(out, torch::matmul(a[1], w.t()) + add[0] + bias, at);

    auto sum = at(add).clone();  // in place, a batch, one side transposed
    product(sum, at(a), at(b).transpose(1, 2), {.scale = 0.5, .add = sum});
    expect_near(sum, 0.5 * torch::matmul(a, b.transpose(1, 2)) + add, at);

    auto flipped = torch::full({16, 20}, NAN, at(a).options());
    product(flipped.t(), at(a[2]), at(w).t());  // a transposed result
    expect_near(flipped, torch::matmul(a[2], w.t()).t(), at);

    // Heads in the middle of rows: (rows, H · D) as (H, rows, D).
    auto wide = torch::full({20, 32}, NAN, at(a).options());
    const auto heads = [](const Tensor& x) {
      return x.view({20, 2, -1}).transpose(0, 1);
    };
    product(heads(wide), heads(at(a[0])), at(random({2, 6, 16}, "heads")));
    expect_near(heads(wide),
                torch::matmul(heads(a[0]), random({2, 6, 16}, "heads")), at);
  }
}

TEST(KernelsLayerNorm, ValueAndGradients) {
  for (const int64_t width : {5, 64, 512}) {
    const int64_t rows = 37;
    auto x = random({rows, width}, "x").set_requires_grad(true);
    auto weight = random({width}, "weight").set_requires_grad(true);
    auto bias = random({width}, "bias").set_requires_grad(true);
    const auto dy = random({rows, width}, "dy");
    const auto residual = random({rows, width}, "residual");
    const auto y = torch::layer_norm(x, {width}, weight, bias, 1e-5);
    const auto g = torch::autograd::grad({y}, {x, weight, bias}, {dy});
    const torch::NoGradGuard no_grad;
    for (const auto& at : places()) {
      const auto got = layer_norm(at(x), at(weight), at(bias), 1e-5);
      expect_near(got.y, y, at);
      auto dweight = torch::ones({width}, at(x).options());
      auto dbias = torch::ones_like(dweight);
      Beside beside(dweight.device());
      const auto dx = layer_norm_backward(at(dy), at(x), got, at(weight),
                                          at(residual), dweight, dbias, beside);
      beside.join();
      expect_near(dx, g[0] + residual, at);
      expect_near(dweight, g[1] + 1, at);
      expect_near(dbias, g[2] + 1, at);
    }
  }
}

TEST(KernelsPrefixSoftmax, ValueAndGradient) {
  const int64_t tokens = 11, keys = 5, heads = 4;
  auto scores =
      (3 * random({tokens, keys * heads}, "scores")).set_requires_grad(true);
  const auto dw = random({tokens, keys * heads}, "dw");
  const auto w = torch::softmax(scores.view({tokens, keys, heads}), 1)
                     .view({tokens, keys * heads});
  const auto g = torch::autograd::grad({w}, {scores}, {dw});
  const torch::NoGradGuard no_grad;
  for (const auto& at : places()) {
    auto got = at(scores).clone();
    prefix_softmax(got, heads);
    expect_near(got, w, at);
    auto back = at(dw).clone();
    prefix_softmax_backward(back, got, heads);
    expect_near(back, g[0], at);
  }
}

TEST(KernelsColumnSums, AloneAndAddedToWhatIsThere) {
  for (const int64_t rows : {0, 1, 7, 1000}) {
    const auto a = random({rows, 37}, "a"), y = random({rows, 37}, "y");
    for (const auto& at : places()) {
      auto out = torch::ones({37}, at(a).options());
      expect_near(column_sums(at(a)), a.sum(0), at);
      add_column_sums(out, at(a));
      expect_near(out, a.sum(0) + 1, at);
      auto dy = at(a).clone();
      auto dbias = torch::ones({37}, at(a).options());
      Beside beside(dy.device());
      relu_backward(dy, at(y), dbias, beside);
      beside.join();
      expect_near(dy, a * (y > 0), at);
      expect_near(dbias, (a * (y > 0)).sum(0) + 1, at);
    }
  }
}

struct AttentionCase {
  int64_t tokens, depth, prefix;
  bool sees_itself;
};

class KernelsPackedAttention : public ::testing::TestWithParam<AttentionCase> {
};

TEST_P(KernelsPackedAttention, EqualsMaskedAttention) {
  const auto [tokens, depth, prefix, sees_itself] = GetParam();
  const int64_t heads = 3, width = heads * depth;
  auto qkv = random({2, tokens, 3 * width}, "qkv").set_requires_grad(true);
  const auto grad = random({2, tokens, width}, "grad");
  const auto parts = qkv.view({2, tokens, 3, heads, depth}).unbind(2);
  const auto mask = causal_mask(tokens, prefix, sees_itself, torch::kFloat64);
  const auto out =
      masked_attention(parts[0].transpose(1, 2), parts[1].transpose(1, 2),
                       parts[2].transpose(1, 2), mask)
          .transpose(1, 2)
          .flatten(2);
  const auto expected = torch::autograd::grad({out}, {qkv}, {grad});
  const torch::NoGradGuard no_grad;
  for (const auto& at : places()) {
    const auto got =
        packed_causal_attention(at(qkv), heads, prefix, sees_itself);
    expect_near(got.out, out, at);
    const auto back = packed_causal_attention_backward(
        at(grad), at(qkv), got, heads, prefix, sees_itself);
    expect_near(back, expected[0], at);
  }
}

// Queries that point at one key each: no softmax moves, so no gradient reaches
// queries or keys, in TF32 neither. Scores of some hundred are large enough for
// that, and small enough to be rounded by some 1e-5 of a weight only.
TEST(KernelsPackedAttentionSaturated, OnlyValuesHaveAGradient) {
  const int64_t tokens = 70, heads = 3, depth = 32, width = heads * depth;
  const auto keys = 8 * torch::sign(random({2, tokens, width}, "keys"));
  const auto chosen = torch::arange(tokens).div(2, "floor");
  const auto values = random({2, tokens, width}, "values");
  const auto qkv = torch::cat({keys.index_select(1, chosen), keys, values}, 2);
  const auto grad = random({2, tokens, width}, "grad");
  const auto of_values = torch::zeros_like(values).index_add(1, chosen, grad);
  for (const auto& at : places()) {
    for (const bool tf32 : {false, true}) {
      const Tf32Scope precision(tf32);
      const auto forward =
          packed_causal_attention(at(qkv), heads, /*prefix=*/1, true);
      const auto back =
          packed_causal_attention_backward(at(grad), at(qkv), forward, heads,
                                           /*prefix=*/1, true)
              .to(torch::kCPU, torch::kFloat64);
      EXPECT_LT(back.narrow(2, 0, 2 * width).abs().max().item<double>(), 2e-4)
          << at.device << " " << at.type << " " << tf32;
      EXPECT_TRUE(near(back.narrow(2, 2 * width, width), of_values,
                       {2e-3, tf32 ? 2e-3 : 1e-5}));
    }
  }
}

// Tokens that differ by 1/300 of what they have in common: a softmax and its
// gradient know nothing of that, and it must not come back as rounding.
TEST(KernelsAttentionAlike, WhatTokensHaveInCommonHasNoGradient) {
  const int64_t tokens = 130, heads = 2, depth = 32, width = heads * depth;
  const int64_t prefix = 5;
  const auto common = torch::cat({torch::zeros({width}, torch::kFloat64),
                                  300 * random({2 * width}, "common")});
  const auto qkv = (random({2, tokens, 3 * width}, "qkv") + common)
                       .to(torch::kFloat32)
                       .to(torch::kFloat64);
  const auto grad = random({2, tokens, width}, "grad");
  const auto by_head = [](const Tensor& x) {
    return x.unflatten(2, {heads, depth}).transpose(1, 2);
  };
  const auto merged = [](const Tensor& x) {
    return x.transpose(1, 2).flatten(2);
  };
  // What comes out, less what values have in common, and the gradients of
  // queries, keys and values.
  const auto apart = [&](const Tensor& out) {
    return out.to(torch::kCPU, torch::kFloat64) - common.slice(0, 2 * width);
  };
  const auto through = [&](const auto& attention, const Place& at) {
    auto parts = at(qkv).chunk(3, 2);
    for (auto& part : parts) part = part.detach().set_requires_grad(true);
    const auto out = merged(
        attention(by_head(parts[0]), by_head(parts[1]), by_head(parts[2])));
    auto all = torch::autograd::grad({out}, parts, {at(grad)});
    all.insert(all.begin(), apart(out.detach()));
    return all;
  };
  const Place exact{torch::kCPU, torch::kFloat64};
  const auto expected = through(
      [&](const Tensor& q, const Tensor& k, const Tensor& v) {
        return masked_attention(
            q, k, v, causal_mask(tokens, prefix, true, torch::kFloat64));
      },
      exact);
  const auto check = [&](const std::vector<Tensor>& got, double limit,
                         const std::string& what) {
    for (size_t n = 0; n < got.size(); ++n) {
      const auto off = got[n].to(torch::kCPU, torch::kFloat64) - expected[n];
      EXPECT_LT((off.norm() / expected[n].norm()).item<double>(), limit)
          << what << ", part " << n;
    }
  };
  for (const auto& at : places()) {
    for (const bool tf32 : {false, true}) {
      const Tf32Scope precision(tf32);
      const double limit = tf32 ? 1.5e-3 : 1e-4;
      const auto where = fmt::format("{} {} tf32 {}", at.device.str(),
                                     torch::toString(at.type), tf32);
      check(through(
                [&](const Tensor& q, const Tensor& k, const Tensor& v) {
                  return causal_attention(q, k, v, prefix, true);
                },
                at),
            limit, "in blocks, " + where);
      const torch::NoGradGuard no_grad;
      const auto packed = packed_causal_attention(at(qkv), heads, prefix, true);
      auto got = packed_causal_attention_backward(at(grad), at(qkv), packed,
                                                  heads, prefix, true)
                     .chunk(3, 2);
      got.insert(got.begin(), apart(packed.out));
      check(got, limit, "packed, " + where);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(KernelsShapes, KernelsPackedAttention,
                         ::testing::Values(AttentionCase{7, 16, 1, true},
                                           AttentionCase{64, 32, 5, false},
                                           AttentionCase{65, 32, 6, true},
                                           AttentionCase{130, 64, 100, true},
                                           AttentionCase{33, 8, 4, false}));

}  // namespace
}  // namespace propagator::kernels
