#include "propagator/nn/attention_bias.h"

#include <torch/utils.h>

#include <cmath>
#include <limits>

#include "testing.h"

namespace propagator::nn {
namespace {

using testing::gradient_is_right;
using testing::kFloat64;
using testing::near;
using testing::random;
using torch::Tensor;

constexpr double kNever = -std::numeric_limits<double>::infinity();
constexpr int64_t kCases = 2, kHeads = 2, kTokens = 7, kDepth = 4, kAxes = 2;

struct Inputs {
  Tensor q = random({kCases, kHeads, kTokens, kDepth}, "q");
  Tensor k = random({kCases, kHeads, kTokens, kDepth}, "k");
  Tensor v = random({kCases, kHeads, kTokens, kDepth}, "v");
  Tensor places = random({kCases, kTokens, kAxes}, "places");
  AttentionCoordinates at() const { return {places, places}; }
};

double entry(const Tensor& x, std::initializer_list<int64_t> at) {
  auto part = x;
  for (const auto n : at) part = part[n];
  return part.item<double>();
}

// What is added to the score of query i and key j of a case and head.
using Added = std::function<double(int64_t b, int64_t h, int64_t i, int64_t j)>;

// The textbook's sums, one number after the other.
Tensor by_loops(const Inputs& in, const Added& added) {
  auto out = torch::zeros_like(in.v);
  for (int64_t b = 0; b < kCases; ++b) {
    for (int64_t h = 0; h < kHeads; ++h) {
      for (int64_t i = 0; i < kTokens; ++i) {
        std::vector<double> weights;
        double sum = 0;
        for (int64_t j = 0; j < kTokens; ++j) {
          double score = 0;
          for (int64_t d = 0; d < kDepth; ++d) {
            score += entry(in.q, {b, h, i, d}) * entry(in.k, {b, h, j, d});
          }
          score = score / std::sqrt(kDepth) + added(b, h, i, j);
          sum += weights.emplace_back(std::exp(score));
        }
        for (int64_t j = 0; j < kTokens; ++j) {
          out[b][h][i] += weights[static_cast<size_t>(j)] / sum * in.v[b][h][j];
        }
      }
    }
  }
  return out;
}

double hidden_unless(bool visible) { return visible ? 0 : kNever; }

void expect_loops(const Inputs& in, const AttentionBias& bias,
                  const Added& added) {
  EXPECT_TRUE(near(attention_reference(in.q, in.k, in.v, bias),
                   by_loops(in, added), {1e-11, 1e-12}));
}

double distance(const Tensor& places, int64_t b, int64_t i, int64_t j) {
  double sum = 0;
  for (int64_t a = 0; a < kAxes; ++a) {
    const double d = entry(places, {b, i, a}) - entry(places, {b, j, a});
    sum += d * d;
  }
  return std::sqrt(sum);
}

TEST(NnAttentionBias, KeysByTheirNumberAreThoseOfLoops) {
  const Inputs in;
  expect_loops(in, AttentionBias::full(), [](auto...) { return 0.0; });
  expect_loops(
      in, AttentionBias::visible_prefix(3),
      [](auto, auto, auto, int64_t j) { return hidden_unless(j < 3); });
  expect_loops(
      in, AttentionBias::causal(),
      [](auto, auto, int64_t i, int64_t j) { return hidden_unless(j <= i); });
  expect_loops(in, AttentionBias::causal(2, /*sees_itself=*/false),
               [](auto, auto, int64_t i, int64_t j) {
                 return hidden_unless(j < 2 || j < i);
               });
  expect_loops(in, AttentionBias::windows(3),
               [](auto, auto, int64_t i, int64_t j) {
                 return hidden_unless(i / 3 == j / 3);
               });
}

TEST(NnAttentionBias, PaddingIsOfItsBatchRow) {
  const Inputs in;
  auto padding = torch::zeros({kCases, kTokens}, torch::kBool);
  padding[0].slice(0, 4).fill_(true);
  padding[1][0] = true;
  expect_loops(in, AttentionBias::padded(padding),
               [](int64_t b, auto, auto, int64_t j) {
                 return hidden_unless(b == 0 ? j < 4 : j > 0);
               });
  const auto weights =
      attention_weights(in.q, in.k, AttentionBias::padded(padding));
  EXPECT_TRUE(
      near(weights.sum(-1), torch::ones_like(weights.select(-1, 0)), kFloat64));
  const auto hidden = padding.unsqueeze(1).unsqueeze(1).expand_as(weights);
  EXPECT_EQ(weights.masked_select(hidden).abs().max().item<double>(), 0);
}

TEST(NnAttentionBias, AlibiFallsWithDistance) {
  const Inputs in;
  expect_loops(in, AttentionBias::alibi(alibi_slopes(kHeads, 3.0), in.at()),
               [&](int64_t b, int64_t h, int64_t i, int64_t j) {
                 const double slope =
                     3 * std::exp2(-8.0 * static_cast<double>(h + 1) / kHeads);
                 return -slope * distance(in.places, b, i, j);
               });
}

TEST(NnAttentionBias, RopeRotatesPairsOfChannels) {
  const Inputs in;
  const auto frequencies = rope_frequencies(kAxes, kDepth / 2);
  Inputs rotated_in;
  const auto rotate = [&](const Tensor& x, Tensor& to) {
    for (int64_t b = 0; b < kCases; ++b) {
      for (int64_t h = 0; h < kHeads; ++h) {
        for (int64_t t = 0; t < kTokens; ++t) {
          for (int64_t n = 0; n < kDepth / 2; ++n) {
            double angle = 0;
            for (int64_t a = 0; a < kAxes; ++a) {
              angle += entry(in.places, {b, t, a}) * entry(frequencies, {a, n});
            }
            const double u = entry(x, {b, h, t, 2 * n}),
                         w = entry(x, {b, h, t, 2 * n + 1});
            to[b][h][t][2 * n] = u * std::cos(angle) - w * std::sin(angle);
            to[b][h][t][2 * n + 1] = u * std::sin(angle) + w * std::cos(angle);
          }
        }
      }
    }
  };
  rotate(in.q, rotated_in.q);
  rotate(in.k, rotated_in.k);
  const auto bias = AttentionBias::rope(frequencies, in.at());
  EXPECT_TRUE(near(attention_reference(in.q, in.k, in.v, bias),
                   by_loops(rotated_in, [](auto...) { return 0.0; }),
                   {1e-11, 1e-12}));
}

// A heat kernel of width s inside the distance `reach`: a support.
LogitFunction heat_logits(const Tensor& s, double reach) {
  return [=](const AttentionCoordinates& at) {
    const auto squares =
        (at.queries.unsqueeze(2) - at.keys.unsqueeze(1)).square().sum(-1);
    const auto logits = -squares / (2 * s.square());
    return logits.masked_fill(squares > reach * reach, kNever).unsqueeze(1);
  };
}

TEST(NnAttentionBias, LogitsOfCoordinatesWithASupport) {
  const Inputs in;
  const auto s = torch::tensor(0.7, torch::kFloat64);
  const auto bias = AttentionBias::of(heat_logits(s, 0.6), in.at());
  const auto got = attention_reference(in.q, in.k, in.v, bias);
  EXPECT_TRUE(got.isfinite().all().item<bool>());
  expect_loops(in, bias, [&](int64_t b, auto, int64_t i, int64_t j) {
    const double d = distance(in.places, b, i, j);
    return d > 0.6 ? kNever : -d * d / (2 * 0.7 * 0.7);
  });
  const auto weights = attention_weights(in.q, in.k, bias);
  EXPECT_TRUE(
      near(weights.sum(-1), torch::ones_like(weights.select(-1, 0)), kFloat64));
}

TEST(NnAttentionBias, GradientOfItsParameterIsThatOfDifferences) {
  const Inputs in;
  for (const double reach : {10.0, 0.6}) {
    const auto of_width = [&](const Tensor& s) {
      const auto bias = AttentionBias::of(heat_logits(s, reach), in.at());
      return attention_reference(in.q, in.k, in.v, bias).square().sum();
    };
    EXPECT_TRUE(
        gradient_is_right(of_width, torch::full({1}, 0.7, torch::kFloat64)));
    const auto of_query = [&](const Tensor& q) {
      const auto s = torch::tensor(0.7, torch::kFloat64);
      const auto bias = AttentionBias::of(heat_logits(s, reach), in.at());
      return attention_reference(q, in.k, in.v, bias).square().sum();
    };
    EXPECT_TRUE(gradient_is_right(of_query, in.q));
  }
}

TEST(NnAttentionBias, ZeroLogitsArePlainAttention) {
  const Inputs in;
  const auto zero = AttentionBias::of(
      [](const AttentionCoordinates& at) {
        return torch::zeros({1, 1, at.queries.size(1), at.keys.size(1)},
                            at.queries.options());
      },
      in.at());
  EXPECT_TRUE(torch::equal(
      attention_reference(in.q, in.k, in.v, zero),
      attention_reference(in.q, in.k, in.v, AttentionBias::full())));
}

TEST(NnAttentionBias, WhatItSaysAddsUp) {
  const Inputs in;
  auto bias = AttentionBias::alibi(alibi_slopes(kHeads), in.at());
  bias.keys = AttentionBias::Keys::kCausal;
  bias.sees_itself = true;
  expect_loops(in, bias, [&](int64_t b, int64_t h, int64_t i, int64_t j) {
    const double slope = std::exp2(-8.0 * static_cast<double>(h + 1) / kHeads);
    return j <= i ? -slope * distance(in.places, b, i, j) : kNever;
  });
}

}  // namespace
}  // namespace propagator::nn
