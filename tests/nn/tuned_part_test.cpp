#include "propagator/nn/tuned_part.h"

#include <torch/nn/modules/linear.h>
#include <torch/utils.h>

#include "jet_checks.h"
#include "propagator/core/error.h"
#include "propagator/nn/adapter.h"
#include "propagator/nn/encoder.h"
#include "propagator/nn/init.h"
#include "propagator/nn/learned_prefix.h"
#include "propagator/nn/set_encoder.h"
#include "propagator/nn/wavelet_block.h"
#include "testing.h"

namespace propagator::nn {
namespace {

using autodiff::Jet;
using testing::kFloat64;
using testing::near;
using testing::random;
using testing::thrown;
using torch::Tensor;

void randomise(torch::nn::Module& module) {
  const torch::NoGradGuard no_grad;
  for (auto& item : module.named_parameters()) {
    if (!item.value().is_floating_point()) continue;
    item.value().copy_(0.5 * random(item.value().sizes(), item.key()));
  }
}

template <class Module>
Module random_part(Module module) {
  module->to(torch::kFloat64);
  randomise(*module);
  return module;
}

TEST(NnAdapter, IsTheFormulaOnTensorsAndOnJets) {
  auto adapter = random_part(Adapter(6, 3));
  const auto p = adapter->named_parameters();
  const auto x = random({4, 2, 6}, "x");
  const auto normed = (x - x.mean(-1, true)) /
                      (x.var(-1, /*unbiased=*/false, true) + 1e-5).sqrt();
  const auto hidden =
      torch::tanh(torch::matmul(normed, p["down.weight"].t()) + p["down.bias"]);
  const auto expected =
      x + torch::matmul(hidden, p["up.weight"].t()) + p["up.bias"];
  EXPECT_TRUE(near(adapter->forward(x), expected, kFloat64));
  EXPECT_TRUE(near(adapter->forward(Jet::constant(x)).value(), expected,
                   {1e-11, 1e-12}));
}

TEST(NnAdapter, HasDerivatives) {
  auto adapter = random_part(Adapter(3, 2));
  const testing::MovingPoints at{random({4, 2, 3}, "points"),
                                 random({2, 3}, "directions")};
  const auto map = [&](const Jet& x) { return adapter->forward(x); };
  EXPECT_TRUE(testing::derivatives_are_nested(map, at, 2, {1e-8, 1e-9}));
  EXPECT_TRUE(testing::parameter_gradients_are_nested(*adapter, map, at, 2,
                                                      {1e-8, 1e-9}));
}

TEST(NnLearnedPrefix, HeadsMixTheLearnedValuesByTheGates) {
  auto prefix = random_part(LearnedPrefix(6, 2, 4));
  const auto p = prefix->named_parameters();
  const auto q = random({3, 2, 5, 3}, "queries");  // (B, H, T, D)
  const auto added = prefix->forward(q);
  for (int64_t h = 0; h < 2; ++h) {
    const auto keys = p["keys"].narrow(1, 3 * h, 3);
    const auto values = p["values"].narrow(1, 3 * h, 3);
    const auto weights = torch::softmax(
        torch::matmul(q.select(1, h), keys.t()) / std::sqrt(3.0), -1);
    EXPECT_TRUE(near(
        added.select(1, h),
        torch::tanh(p["gates"][h]) * torch::matmul(weights, values), kFloat64));
  }
  const auto flat = q.transpose(1, 2).flatten(2);  // (B, T, C)
  EXPECT_TRUE(near(prefix->forward(Jet::constant(flat)).value(),
                   added.transpose(1, 2).flatten(2), {1e-11, 1e-12}));
}

// Each kind of layer with a place: as it was at first, another once trained.
class NnTunedPart : public ::testing::TestWithParam<bool> {
 protected:
  template <class Module, class Answer>
  static void expect_neutral(Module module, const Answer& answer) {
    module->to(torch::kFloat64);
    nn::initialise(*module, 1);
    const auto before = answer(module).detach().clone();
    if (GetParam()) {
      add_adapters(*module, 3);
    } else {
      add_prefixes(*module, 2);
    }
    reset_tuned_parts(*module, 5);
    const auto neutral = answer(module).detach().clone();
    EXPECT_TRUE(near(neutral, before, kFloat64));
    int64_t added = 0;
    const torch::NoGradGuard no_grad;
    for (auto& item : module->named_parameters()) {
      if (!is_tuned_part(item.key())) continue;
      ++added;
      EXPECT_EQ(item.value().scalar_type(), torch::kFloat64);
      item.value().add_(random(item.value().sizes(), item.key()));
    }
    EXPECT_GT(added, 0);
    EXPECT_FALSE(near(answer(module), before, {1e-3, 1e-3}));
  }
};

TEST_P(NnTunedPart, OfAnEncoder) {
  for (const auto& bias :
       {AttentionBias::visible_prefix(2), AttentionBias::causal()}) {
    const auto x = random({2, 5, 8}, "x");
    expect_neutral(Encoder(EncoderOptions{2, 8, 2, 4}), [&](Encoder& encoder) {
      const auto visible = encoder->forward(x, bias);
      const torch::NoGradGuard no_grad;
      const auto all = encoder->forward(x, bias, AttentionWork::kFullMask);
      EXPECT_TRUE(near(visible, all, {1e-9, 1e-10}));
      return visible;
    });
  }
}

// One after the other as all at once.
TEST_P(NnTunedPart, OfACachedEncoder) {
  const auto x = random({2, 5, 8}, "x");
  const torch::NoGradGuard no_grad;
  expect_neutral(Encoder(EncoderOptions{2, 8, 2, 4}), [&](Encoder& encoder) {
    auto caches = encoder->make_caches(2, 5, x.options());
    std::vector<Tensor> steps;
    for (int64_t t = 0; t < 5; ++t) {
      steps.push_back(encoder->step(x.narrow(1, t, 1), caches));
    }
    const auto answer = torch::cat(steps, 1);
    EXPECT_TRUE(near(answer, encoder->forward(x, AttentionBias::causal()),
                     {1e-9, 1e-10}));
    return answer;
  });
}

TEST_P(NnTunedPart, OfASetEncoder) {
  const auto x = random({3, 5, 8}, "x");
  const auto padding = random({3, 5}, "padding") > 0.5;
  padding.select(1, 0).fill_(false);
  for (const auto place : {NormPlace::kAfter, NormPlace::kBefore}) {
    const SetEncoderOptions options{.layers = 2,
                                    .width = 8,
                                    .heads = 2,
                                    .feed_forward = 8,
                                    .dropout = 0,
                                    .norm = place};
    expect_neutral(SetEncoder(options), [&](SetEncoder& encoder) {
      const auto packed = encoder->forward({x, padding}, 1);
      const torch::NoGradGuard no_grad;
      const auto plain = encoder->forward({x, padding}, 1);
      EXPECT_TRUE(near(packed, plain, {1e-9, 1e-10}));
      return packed;
    });
  }
}

TEST_P(NnTunedPart, OfBlocksOnJets) {
  const auto x = random({3, 2, 8}, "x");
  for (const auto position :
       {RelativePosition::kNone, RelativePosition::kRope}) {
    const WindowAttentionOptions options{
        .width = 8, .heads = 2, .position = position, .axes = 2};
    const WindowPlaces where{position == RelativePosition::kNone
                                 ? Tensor()
                                 : random({3, 2, 2}, "places")};
    expect_neutral(WaveletStack(options, 4, 2), [&](WaveletStack& stack) {
      return stack->forward(Jet::constant(x), nullptr, where).value();
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, NnTunedPart, ::testing::Bool());

TEST(NnTunedParts, AModelWithoutAPlaceSaysSo) {
  torch::nn::Linear linear(2, 2);
  EXPECT_NE(thrown<UsageError>([&] {
              add_adapters(*linear, 4);
            }).find("no feed-forward blocks"),
            std::string::npos);
  EXPECT_NE(thrown<UsageError>([&] {
              add_prefixes(*linear, 4);
            }).find("no attention"),
            std::string::npos);
}

}  // namespace
}  // namespace propagator::nn
