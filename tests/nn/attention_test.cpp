#include "propagator/nn/attention.h"

#include <torch/autograd.h>
#include <torch/utils.h>

#include "propagator/core/error.h"
#include "propagator/nn/encoder.h"
#include "propagator/nn/init.h"
#include "testing.h"

namespace propagator::nn {
namespace {

using propagator::testing::gradient_is_right;
using propagator::testing::kFloat64;
using propagator::testing::near;
using propagator::testing::random;

AttentionBias block(int64_t prefix) {
  return AttentionBias::visible_prefix(prefix);
}
AttentionBias causal(int64_t prefix, bool sees_itself) {
  return AttentionBias::causal(prefix, sees_itself);
}

MultiHeadAttention make_attention(int64_t width, int64_t heads) {
  MultiHeadAttention attention(AttentionOptions{width, heads});
  initialise(*attention, 3);
  attention->to(torch::kFloat64);
  return attention;
}

TEST(NnAttention, OneHeadByHand) {
  // Identity projections, width 1: out = Σ softmax(x_i x_j) x_j.
  MultiHeadAttention attention(AttentionOptions{1, 1});
  const torch::NoGradGuard no_grad;
  for (auto& weight : attention->parameters()) weight.fill_(1);
  const auto x = torch::tensor({1.0f, 2.0f}).view({1, 2, 1});
  const auto out = attention->forward(x, AttentionBias::full());
  const double e = std::exp(1.0);
  EXPECT_NEAR(out[0][0].item<double>(), (1 + 2 * e) / (1 + e), 1e-6);
  EXPECT_NEAR(out[0][1].item<double>(), (1 + 2 * e * e) / (1 + e * e), 1e-6);
}

TEST(NnAttention, HiddenKeysHaveNoWeight) {
  auto attention = make_attention(8, 2);
  const auto x = random({1, 4, 8}, "x");
  auto padding = torch::zeros({1, 4}, torch::kBool);
  padding.slice(1, 2).fill_(true);
  const auto mask = AttentionBias::padded(padding);
  auto other = x.clone();
  other.slice(1, 2).add_(1);
  const auto a = attention->forward(x, mask);
  const auto b = attention->forward(other, mask);
  EXPECT_TRUE(torch::equal(a.slice(1, 0, 2), b.slice(1, 0, 2)));
}

struct MaskCase {
  AttentionBias mask;
  int64_t heads;  // of width 16: folding pays while heads · prefix < 16
};

class NnPrefixAttention : public ::testing::TestWithParam<MaskCase> {};

TEST_P(NnPrefixAttention, EqualsFullMaskInValueAndGradients) {
  const auto [mask, heads] = GetParam();
  auto attention = make_attention(16, heads);
  auto x = random({2, 9, 16}, "x").set_requires_grad(true);
  const auto cotangent = random({2, 9, 16}, "cotangent");
  std::vector<torch::Tensor> inputs{x};
  for (const auto& parameter : attention->parameters()) {
    inputs.push_back(parameter);
  }
  const auto full = attention->forward(x, mask, AttentionWork::kFullMask);
  const auto fast = attention->forward(x, mask);
  EXPECT_TRUE(near(fast, full, kFloat64));
  const auto g1 = torch::autograd::grad({fast}, inputs, {cotangent});
  const auto g2 = torch::autograd::grad({full}, inputs, {cotangent});
  for (size_t i = 0; i < inputs.size(); ++i) {
    EXPECT_TRUE(near(g1[i], g2[i], {1e-10, 1e-12})) << "input " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(NnMasks, NnPrefixAttention,
                         ::testing::Values(MaskCase{block(3), 2},  // folded
                                           MaskCase{block(5), 8},  // not folded
                                           MaskCase{causal(3, false), 4},
                                           MaskCase{causal(4, true), 4}));

TEST(NnAttention, GradientAgainstDifferences) {
  auto attention = make_attention(8, 2);
  const auto f = [&](const torch::Tensor& x) {
    return attention->forward(x, block(2)).square().sum();
  };
  EXPECT_TRUE(gradient_is_right(f, random({1, 4, 8}, "x")));
}

TEST(NnAttention, HeadsMustDivideWidth) {
  EXPECT_THROW(MultiHeadAttention(AttentionOptions{16, 3}), UsageError);
}

TEST(NnEncoder, VisibleWorkEqualsFullMask) {
  Encoder encoder(EncoderOptions{3, 16, 4, 24});
  initialise(*encoder, 1);
  encoder->to(torch::kFloat64);
  const auto x = random({2, 12, 16}, "x");
  for (const auto& mask : {block(3), causal(3, false)}) {
    EXPECT_TRUE(near(encoder->forward(x, mask, AttentionWork::kVisible),
                     encoder->forward(x, mask, AttentionWork::kFullMask),
                     {1e-10, 1e-12}));
  }
}

TEST(NnEncoder, CachedStepsEqualOneCausalPass) {
  Encoder encoder(EncoderOptions{2, 16, 4, 24});
  initialise(*encoder, 1);
  encoder->to(torch::kFloat64);
  const torch::NoGradGuard no_grad;
  const auto x = random({2, 10, 16}, "x");
  const auto whole = encoder->forward(x, causal(4, true));
  auto caches = encoder->make_caches(2, 10, x.options());
  EXPECT_TRUE(near(encoder->step(x.slice(1, 0, 4), caches),
                   whole.slice(1, 0, 4), {1e-10, 1e-12}));
  for (int64_t t = 4; t < 10; ++t) {
    EXPECT_TRUE(near(encoder->step(x.narrow(1, t, 1), caches),
                     whole.narrow(1, t, 1), {1e-10, 1e-12}));
  }
}

TEST(NnEncoder, LayerIsPreNormWithReluFeedForward) {
  // x + Attention(LN x), then + W₂ relu(W₁ LN x + b₁) + b₂, from its pieces.
  EncoderLayer layer(EncoderOptions{1, 8, 2, 6});
  initialise(*layer, 2);
  layer->to(torch::kFloat64);
  const auto x = random({1, 5, 8}, "x");
  const auto bias = block(2);
  const auto mask = bias.added(5, 5, torch::kFloat64);
  auto p = layer->named_parameters();
  const auto norm = [](const torch::Tensor& t) {
    const auto centred = t - t.mean(-1, true);
    return centred / (centred.square().mean(-1, true) + 1e-5).sqrt();
  };
  const auto heads = [&](int64_t part) {
    const auto weight = p["attention.qkv.weight"].narrow(0, 8 * part, 8);
    return torch::matmul(norm(x), weight.t())
        .view({1, 5, 2, 4})
        .transpose(1, 2);
  };
  const auto scores =
      torch::matmul(heads(0), heads(1).transpose(2, 3)) / 2 + mask;
  const auto mixed = torch::matmul(torch::softmax(scores, -1), heads(2))
                         .transpose(1, 2)
                         .reshape({1, 5, 8});
  const auto y = x + torch::matmul(mixed, p["attention.output.weight"].t());
  const auto hidden = torch::relu(
      torch::matmul(norm(y), p["linear1.weight"].t()) + p["linear1.bias"]);
  const auto expected =
      y + torch::matmul(hidden, p["linear2.weight"].t()) + p["linear2.bias"];
  EXPECT_TRUE(near(layer->forward(x, bias), expected, {1e-10, 1e-12}));
}

// A first token of all sequences is one that each of them begins with, by the
// kernel and, with somebody watching, by the layers.
TEST(NnEncoder, CausalSequencesMayShareTheirFirstToken) {
  Encoder encoder(
      EncoderOptions{.layers = 2, .width = 32, .heads = 2, .feed_forward = 48});
  initialise(*encoder, 5);
  encoder->to(torch::kFloat64);
  const auto first = random({1, 32}, "first"), rest = random({7, 3, 32}, "x");
  const auto none = torch::zeros({0, 32}, torch::kFloat64);
  const auto written =
      torch::cat({first.unsqueeze(0).expand({7, 1, 32}), rest}, 1);
  const auto plain = encoder->forward(written, AttentionBias::causal());
  const auto expect_equal = [&] {
    const auto shared = encoder->forward_causal({first, rest});
    EXPECT_TRUE(near(shared.rest, plain.narrow(1, 1, 3), {1e-10, 1e-12}));
    EXPECT_TRUE(
        near(shared.first, plain.select(1, 0).narrow(0, 0, 1), {1e-10, 1e-12}));
    EXPECT_TRUE(near(encoder->forward_causal({none, written}).rest, plain,
                     {1e-10, 1e-12}));
  };
  expect_equal();
  int64_t seen = 0;
  for (const auto& module : encoder->modules()) {
    if (auto* attention = module->as<MultiHeadAttentionImpl>()) {
      attention->observe(
          [&](const torch::Tensor&, const AttentionBias&) { ++seen; });
    }
  }
  expect_equal();
  EXPECT_EQ(seen, 4);  // two layers, twice
}

}  // namespace
}  // namespace propagator::nn
