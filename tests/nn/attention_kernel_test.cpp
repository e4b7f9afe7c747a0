#include "propagator/nn/attention_kernel.h"

#include <torch/autograd.h>
#include <torch/utils.h>

#include "propagator/kernels/set/set_attention.h"
#include "propagator/nn/attention.h"
#include "propagator/nn/init.h"
#include "propagator/nn/window_attention.h"
#include "testing.h"

namespace propagator::nn {
namespace {

using autodiff::Jet;
using autodiff::JetLayout;
using testing::near;
using testing::random;
using torch::Tensor;
using Form = AttentionCase::Form;
using Kernel = AttentionKernel;

constexpr testing::Tolerance kSums{1e-10, 1e-12};

struct Choice {
  AttentionBias bias;
  int64_t heads;  // of width 16
  Kernel kernel;
};

std::vector<Choice> choices() {
  auto padding = torch::zeros({2, 9}, torch::kBool);
  padding[1].slice(0, 5).fill_(true);
  const auto places = random({2, 9, 2}, "places");
  auto both = AttentionBias::causal(2, true);
  both.padding = torch::zeros({2, 9}, torch::kBool);
  // Heat in one dimension, with a global token.
  const kernels::GreenTerm heat{{kernels::GreenKind::kHeat, 1},
                                torch::full({1}, 0.3, torch::kFloat64),
                                true,
                                true};
  auto both_of = AttentionBias::greens(heat, {places, places});
  both_of.slopes = alibi_slopes(2);
  return {{AttentionBias::full(), 4, Kernel::kReference},
          {AttentionBias::visible_prefix(3), 2, Kernel::kFoldedPrefix},
          {AttentionBias::visible_prefix(5), 8, Kernel::kPrefix},
          {AttentionBias::causal(), 4, Kernel::kCausal},
          {AttentionBias::causal(3, false), 4, Kernel::kCausal},
          {AttentionBias::padded(padding), 4, Kernel::kReference},
          {AttentionBias::windows(3), 4, Kernel::kReference},
          {AttentionBias::alibi(alibi_slopes(4), {places, places}), 4,
           Kernel::kReference},
          {AttentionBias::rope(rope_frequencies(2, 2), {places, places}), 4,
           Kernel::kReference},
          {AttentionBias::greens(heat, {places, places}), 2, Kernel::kGreen},
          {AttentionBias::greens(heat, {places, places}), 4,
           Kernel::kReference},  // heads of depth 4
          {both_of, 2, Kernel::kReference},
          {both, 4, Kernel::kReference}};
}

TEST(NnAttentionKernel, OfTokensAgreesWithTheReference) {
  const auto cotangent = random({2, 9, 16}, "cotangent");
  for (const auto& [bias, heads, kernel] : choices()) {
    MultiHeadAttention attention(AttentionOptions{16, heads});
    initialise(*attention, 3);
    attention->to(torch::kFloat64);
    auto x = random({2, 9, 16}, "x").set_requires_grad(true);
    EXPECT_EQ(choose_attention_kernel(bias, {.x = x, .heads = heads}), kernel);
    std::vector<Tensor> inputs{x};
    for (const auto& p : attention->parameters()) inputs.push_back(p);
    const auto fast = attention->forward(x, bias);
    const auto full = attention->forward(x, bias, AttentionWork::kFullMask);
    EXPECT_TRUE(near(fast, full, kSums));
    const auto got = torch::autograd::grad({fast}, inputs, {cotangent});
    const auto wanted = torch::autograd::grad({full}, inputs, {cotangent});
    for (size_t n = 0; n < inputs.size(); ++n) {
      EXPECT_TRUE(near(got[n], wanted[n], kSums)) << n;
    }
  }
}

TEST(NnAttentionKernel, GreenCrossesSetsAndHidesKeys) {
  const auto q = random({2, 2, 11, 8}, "q"), k = random({2, 2, 9, 8}, "k"),
             v = random({2, 2, 9, 8}, "v");
  const AttentionCoordinates at{random({2, 11, 3}, "queries"),
                                random({2, 9, 3}, "keys")};
  const auto f = [&](const Tensor& rate) {
    auto bias = AttentionBias::greens(
        {{kernels::GreenKind::kHeat, 2}, rate, false, true}, at);
    bias.padding = torch::zeros({2, 9}, torch::kBool);
    bias.padding[1].slice(0, 5).fill_(true);
    const auto out = attend(q, k, v, bias);
    EXPECT_TRUE(near(out, attention_reference(q, k, v, bias), kSums));
    return out.square().sum();
  };
  EXPECT_TRUE(
      testing::gradient_is_right(f, torch::full({1}, 0.3, torch::kFloat64)));
  const auto plain = AttentionBias::full();
  EXPECT_TRUE(torch::equal(attend(q, k, v, plain),
                           attention_reference(q, k, v, plain)));
}

TEST(NnAttentionKernel, FullWorkIsTheReference) {
  const auto x = random({2, 9, 16}, "x");
  for (const auto form : {Form::kTokens, Form::kLayer}) {
    EXPECT_EQ(choose_attention_kernel(AttentionBias::causal(),
                                      {.form = form,
                                       .x = x,
                                       .heads = 4,
                                       .work = AttentionWork::kFullMask}),
              Kernel::kReference);
  }
}

TEST(NnAttentionKernel, OfSetsAgreesWithTheReference) {
  const auto qkv = random({2, 9, 48}, "qkv");
  for (const auto& [bias, heads, kernel] : choices()) {
    if (!bias.padding.defined()) continue;
    const bool known = bias.keys == AttentionBias::Keys::kAll;
    const auto chosen = choose_attention_kernel(
        bias, {.form = Form::kSet, .x = qkv, .heads = heads});
    EXPECT_EQ(chosen, known ? Kernel::kSet : Kernel::kReference);
    if (!known) continue;
    const auto parts = qkv.view({2, 9, 3, heads, -1});
    const auto part = [&](int64_t n) {
      return parts.select(2, n).transpose(1, 2);
    };
    const auto wanted = attention_reference(part(0), part(1), part(2), bias);
    EXPECT_TRUE(near(kernels::set_attention(qkv, {heads, 9, bias.padding, {}}),
                     wanted.transpose(1, 2).flatten(2), kSums));
  }
}

WindowAttention make_windows(int64_t heads) {
  WindowAttention layer(WindowAttentionOptions{.width = 16, .heads = heads});
  layer->to(torch::kFloat64);
  const torch::NoGradGuard no_grad;
  for (auto& item : layer->named_parameters()) {
    item.value().copy_(random(item.value().sizes(), item.key()));
  }
  return layer;
}

TEST(NnAttentionKernel, OfWindowsAgreesWithTheReference) {
  for (const auto& [bias, heads, kernel] : choices()) {
    auto layer = make_windows(heads);
    auto x = random({2, 9, 16}, "x");
    const auto p = layer->named_parameters();
    const auto project = [&, heads = heads](const char* name, int64_t from) {
      const auto y =
          torch::linear(x, p[std::string(name) + ".weight"].narrow(0, from, 16),
                        p[std::string(name) + ".bias"].narrow(0, from, 16));
      return y.view({2, 9, heads, -1}).transpose(1, 2);
    };
    const auto mixed =
        attention_reference(project("query", 0), project("key_value", 0),
                            project("key_value", 16), bias)
            .transpose(1, 2)
            .flatten(2);
    const auto wanted =
        torch::linear(mixed, p["output.weight"], p["output.bias"]);
    const auto got = layer->attend(Jet::constant(x), Jet::constant(x), bias);
    EXPECT_TRUE(near(got.value(), wanted, kSums));
  }
}

TEST(NnAttentionKernel, WindowsLearnTheParametersOfLogits) {
  auto layer = make_windows(4);
  const auto x = random({2, 9, 16}, "x"), places = random({2, 9, 2}, "places");
  const auto f = [&](const Tensor& rate) {
    const auto bias = AttentionBias::of(
        [&](const AttentionCoordinates& at) {
          const auto squares =
              (at.queries.unsqueeze(2) - at.keys.unsqueeze(1)).square().sum(-1);
          return (-rate * squares)
              .masked_fill(squares > 1, -INFINITY)
              .unsqueeze(1);
        },
        {places, places});
    return layer->attend(Jet::constant(x), Jet::constant(x), bias)
        .value()
        .square()
        .sum();
  };
  EXPECT_TRUE(
      testing::gradient_is_right(f, torch::full({1}, 0.8, torch::kFloat64)));
}

TEST(NnAttentionKernel, OfJetsIsChosenWhereTheBiasIsAConstant) {
  const auto x = random({1, 2, 9, 16}, "x"),
             places = random({2, 9, 2}, "places");
  AttentionCase asked{.form = Form::kWindows, .x = x, .heads = 4};
  EXPECT_EQ(choose_attention_kernel(AttentionBias::full(), asked),
            Kernel::kReference);  // kernels may not take them
  asked.orders = kernels::JetOrders{};
  const AttentionCoordinates at{places, places};
  EXPECT_EQ(choose_attention_kernel(AttentionBias::full(), asked),
            Kernel::kJet);
  EXPECT_EQ(
      choose_attention_kernel(AttentionBias::alibi(alibi_slopes(4), at), asked),
      Kernel::kJet);
  EXPECT_EQ(
      choose_attention_kernel(
          AttentionBias::of([](const auto&) { return Tensor(); }, at), asked),
      Kernel::kReference);
}

}  // namespace
}  // namespace propagator::nn
