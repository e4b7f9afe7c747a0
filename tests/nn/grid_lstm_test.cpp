#include "propagator/nn/grid_lstm.h"

#include <torch/utils.h>

#include "testing.h"

namespace propagator::nn {
namespace {

using testing::near;
using testing::random;
using torch::Tensor;

GridLstm made_lstm(const std::vector<bool>& periodic) {
  GridLstm layer(GridLstmOptions{.in = 2, .out = 3, .periodic = periodic});
  layer->to(torch::kFloat64);
  const torch::NoGradGuard no_grad;
  for (auto& item : layer->named_parameters()) {
    item.value().copy_(random(item.value().sizes(), item.key()));
  }
  return layer;
}

// Where all nodes are the same, a convolution is the sum of its matrices, and
// each node a recurrent cell of its own.
TEST(NnGridLstm, IsACellOnAUniformField) {
  const torch::NoGradGuard no_grad;
  auto layer = made_lstm({true, true});
  const auto w = layer->named_parameters();
  const auto values = random({2, 4, 2}, "values");
  const auto x =
      values.view({2, 4, 1, 1, 2}).expand({2, 4, 3, 5, 2}).contiguous();
  GridLstmState state;
  const auto answer = layer(x, state);
  ASSERT_EQ(answer.sizes(), torch::IntArrayRef({2, 4, 3, 5, 3}));
  auto hidden = torch::zeros({2, 3}, torch::kFloat64), cell = hidden;
  for (int64_t t = 0; t < 4; ++t) {
    std::tie(hidden, cell) = torch::lstm_cell(
        values.select(1, t), {hidden, cell}, w["input.weight"].sum({2, 3}),
        w["hidden.weight"].sum({2, 3}), w["input.bias"],
        torch::zeros({12}, torch::kFloat64));
    const auto everywhere = hidden.view({2, 1, 1, 3}).expand({2, 3, 5, 3});
    EXPECT_TRUE(near(answer.select(1, t), everywhere, testing::kFloat64));
  }
  EXPECT_TRUE(
      near(state.cell.select(1, 1).select(1, 2), cell, testing::kFloat64));
}

TEST(NnGridLstm, GoesOnFromItsState) {
  const torch::NoGradGuard no_grad;
  auto layer = made_lstm({true, false});
  const auto x = random({2, 5, 4, 3, 2}, "x");
  GridLstmState whole, parts;
  const auto all = layer(x, whole);
  int64_t done = 0;
  for (const int64_t count : {2, 1, 2}) {
    EXPECT_TRUE(near(layer(x.narrow(1, done, count), parts),
                     all.narrow(1, done, count), testing::kFloat64));
    done += count;
  }
  EXPECT_TRUE(near(parts.cell, whole.cell, testing::kFloat64));
}

TEST(NnGridLstm, NeighboursOfTheStateCount) {
  const torch::NoGradGuard no_grad;
  auto layer = made_lstm({true});
  auto x = random({1, 3, 9, 2}, "x");
  GridLstmState state, other;
  const auto before = layer(x, state);
  x[0][0][4] += 1;
  const auto change = (layer(x, other) - before).abs().sum(-1)[0];  // (3, 9)
  for (int64_t t = 0; t < 3; ++t) {
    for (int64_t n = 0; n < 9; ++n) {
      EXPECT_EQ(change[t][n].item<double>() > 0, std::abs(n - 4) <= t + 1);
    }
  }
}

TEST(NnGridLstm, GradientsAreRight) {
  auto layer = made_lstm({false});
  EXPECT_TRUE(testing::gradient_is_right(
      [&](const Tensor& x) {
        GridLstmState state;
        return layer(x, state).square().sum();
      },
      random({1, 3, 4, 2}, "x")));
}

TEST(NnGridLstm, TheForgetGateHasTheSecondQuarterOfTheBias) {
  auto layer = made_lstm({true});
  const torch::NoGradGuard no_grad;
  layer->forget_bias().fill_(50);  // forgets nothing
  auto x = random({1, 2, 4, 2}, "x");
  GridLstmState state;
  layer(x.narrow(1, 0, 1), state);
  const auto kept = state.cell.clone();
  layer->named_parameters()["input.bias"].narrow(0, 0, 3).fill_(-80);
  layer(x.narrow(1, 1, 1), state);  // and takes nothing in
  EXPECT_TRUE(near(state.cell, kept, testing::kFloat64));
}

}  // namespace
}  // namespace propagator::nn
