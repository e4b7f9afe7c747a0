#include "propagator/nn/decoder.h"

#include <torch/autograd.h>
#include <torch/utils.h>

#include <cmath>

#include "propagator/core/error.h"
#include "propagator/nn/init.h"
#include "propagator/nn/token_choice.h"
#include "testing.h"

namespace propagator::nn {
namespace {

using propagator::testing::gradient_is_right;
using propagator::testing::kFloat64;
using propagator::testing::near;
using propagator::testing::random;
using torch::Tensor;

const EncoderOptions kSmall{
    .layers = 2, .width = 8, .heads = 2, .feed_forward = 12};

Decoder small_decoder() {
  Decoder decoder(kSmall);
  initialise(*decoder, 3);
  decoder->to(torch::kFloat64);
  return decoder;
}

TEST(NnMemoryAttention, IsTheSoftmaxOfItsDefinition) {
  MemoryAttention attention(AttentionOptions{4, 2});
  initialise(*attention, 1);
  attention->to(torch::kFloat64);
  const auto x = random({1, 3, 4}, "x"), m = random({1, 5, 4}, "m");
  const auto padding =
      torch::tensor({false, false, true, false, true}).view({1, 5});
  const auto out = attention->forward(x, attention->read(m, padding));
  const auto p = attention->named_parameters();
  const auto q = torch::matmul(x[0], p["query.weight"].t());
  const auto kv = torch::matmul(m[0], p["key_value.weight"].t());
  std::vector<Tensor> heads;
  for (int64_t h = 0; h < 2; ++h) {
    const auto scores =
        torch::matmul(q.narrow(1, 2 * h, 2), kv.narrow(1, 2 * h, 2).t()) /
        std::sqrt(2.0);
    const auto weights =
        scores.exp() * padding[0].logical_not().to(torch::kFloat64);
    heads.push_back(torch::matmul(weights / weights.sum(1, true),
                                  kv.narrow(1, 4 + 2 * h, 2)));
  }
  const auto expected =
      torch::matmul(torch::cat(heads, 1), p["output.weight"].t());
  EXPECT_TRUE(near(out[0], expected, kFloat64));
}

TEST(NnDecoder, GradientsAreRight) {
  auto decoder = small_decoder();
  const auto x = random({2, 4, 8}, "x"), encoded = random({2, 3, 8}, "m");
  // The sum of squares of what is normalised would be the same everywhere.
  const auto weights = random({2, 4, 8}, "w");
  EXPECT_TRUE(gradient_is_right(
      [&](const Tensor& v) {
        return (decoder->forward(v, decoder->read(encoded, {})) * weights)
            .sum();
      },
      x));
  EXPECT_TRUE(gradient_is_right(
      [&](const Tensor& v) {
        return (decoder->forward(x, decoder->read(v, {})) * weights).sum();
      },
      encoded));
}

TEST(NnDecoder, StepsGiveWhatAllTokensAtOnceDo) {
  auto decoder = small_decoder();
  const torch::NoGradGuard no_grad;
  const auto x = random({2, 6, 8}, "x"), encoded = random({2, 3, 8}, "m");
  const auto memories = decoder->read(encoded, {});
  const auto whole = decoder->forward(x, memories);
  for (const auto& parts : {std::vector<int64_t>{1, 1, 1, 1, 1, 1},
                            std::vector<int64_t>{3, 1, 2}}) {
    auto caches = decoder->make_caches(2, 6, x.options());
    std::vector<Tensor> steps;
    int64_t at = 0;
    for (const int64_t count : parts) {
      steps.push_back(decoder->step(x.narrow(1, at, count), caches, memories));
      at += count;
    }
    EXPECT_TRUE(near(torch::cat(steps, 1), whole, kFloat64));
  }
}

TEST(NnHardAttention, TakesTheValueOfTheBestKeyAlone) {
  const auto q = random({2, 2, 5, 4}, "q"), k = random({2, 2, 5, 4}, "k"),
             v = random({2, 2, 5, 4}, "v");
  auto bias = AttentionBias::causal();
  bias.hard = true;
  const auto weights = attention_weights(q, k, bias);
  EXPECT_TRUE(
      torch::equal(weights.sum(-1), torch::ones({2, 2, 5}, torch::kFloat64)));
  EXPECT_TRUE(
      torch::equal(weights.amax(-1), torch::ones({2, 2, 5}, torch::kFloat64)));
  // It is what soft attention becomes where scores are far apart.
  auto soft = AttentionBias::causal();
  const auto limit = attention_reference(q * 1e7, k, v, soft);
  EXPECT_TRUE(near(attention_reference(q, k, v, bias), limit, {1e-6, 1e-6}));
}

TEST(NnHardAttention, IsTheSameOfAllTokensAndStepByStep) {
  Encoder encoder(kSmall);
  initialise(*encoder, 4);
  encoder->to(torch::kFloat64);
  const torch::NoGradGuard no_grad;
  const auto x = random({1, 6, 8}, "x");
  const auto soft = encoder->forward(x, AttentionBias::causal());
  set_hard_attention(*encoder, true);
  const auto hard = encoder->forward(x, AttentionBias::causal());
  EXPECT_GT((hard - soft).abs().max().item<double>(), 1e-3);
  auto caches = encoder->make_caches(1, 6, x.options());
  const auto first =
      encoder->step(x.narrow(1, 0, 4), caches, NewTokens::kCausal);
  const auto rest = encoder->step(x.narrow(1, 4, 1), caches);
  EXPECT_TRUE(
      near(torch::cat({first, rest}, 1), hard.narrow(1, 0, 5), kFloat64));
  set_hard_attention(*encoder, false);
  EXPECT_TRUE(torch::equal(encoder->forward(x, AttentionBias::causal()), soft));
}

TEST(NnTokenChoice, KeepsExactlyTheRightTokens) {
  const std::vector<double> logits{std::log(0.1), std::log(0.4), std::log(0.2),
                                   std::log(0.3)};
  const auto near_to = [](const std::vector<double>& a,
                          const std::vector<double>& b) {
    return near(torch::tensor(a, torch::kFloat64),
                torch::tensor(b, torch::kFloat64), kFloat64);
  };
  EXPECT_TRUE(near_to(choice_probabilities(logits, {}), {0, 1, 0, 0}));
  EXPECT_TRUE(near_to(choice_probabilities(logits, {.temperature = 1}),
                      {0.1, 0.4, 0.2, 0.3}));
  EXPECT_TRUE(
      near_to(choice_probabilities(logits, {.temperature = 1, .top_k = 2}),
              {0, 4.0 / 7, 0, 3.0 / 7}));
  // 0.4 + 0.3 reaches 0.65 and not 0.75.
  EXPECT_TRUE(
      near_to(choice_probabilities(logits, {.temperature = 1, .top_p = 0.65}),
              {0, 4.0 / 7, 0, 3.0 / 7}));
  EXPECT_TRUE(
      near_to(choice_probabilities(logits, {.temperature = 1, .top_p = 0.75}),
              {0, 4.0 / 9, 2.0 / 9, 3.0 / 9}));
  EXPECT_TRUE(
      near_to(choice_probabilities(logits, {.temperature = 1, .top_p = 1e-9}),
              {0, 1, 0, 0}));
  // Of what top-k leaves, 0.4 of 0.7 is more than a half.
  EXPECT_TRUE(near_to(choice_probabilities(
                          logits, {.temperature = 1, .top_k = 2, .top_p = 0.5}),
                      {0, 1, 0, 0}));
  // Half the temperature squares the probabilities.
  EXPECT_TRUE(near_to(choice_probabilities(logits, {.temperature = 0.5}),
                      {0.01 / 0.3, 0.16 / 0.3, 0.04 / 0.3, 0.09 / 0.3}));
  // Of equal ones the first.
  EXPECT_TRUE(near_to(choice_probabilities(std::vector<double>{1, 1, 1},
                                           {.temperature = 1, .top_k = 2}),
                      {0.5, 0.5, 0}));
}

TEST(NnTokenChoice, DrawsByTheSumOfProbabilities) {
  const std::vector<double> p{0, 0.25, 0, 0.75};
  EXPECT_EQ(drawn_token(p, 0), 1);
  EXPECT_EQ(drawn_token(p, 0.2499), 1);
  EXPECT_EQ(drawn_token(p, 0.25), 3);
  EXPECT_EQ(drawn_token(std::vector<double>{0.5, 0.4999, 0}, 0.99995), 1);
}

TEST(NnTokenChoice, RefusesNumbersOutOfBounds) {
  const std::vector<double> logits{0, 1};
  for (const auto& bad :
       {TokenChoice{.temperature = -1}, TokenChoice{.temperature = NAN},
        TokenChoice{.top_k = -1}, TokenChoice{.top_p = 0},
        TokenChoice{.top_p = 1.5}, TokenChoice{.top_p = NAN}}) {
    EXPECT_THROW(choice_probabilities(logits, bad), UsageError);
  }
}

}  // namespace
}  // namespace propagator::nn
