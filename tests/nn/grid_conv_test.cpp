#include "propagator/nn/grid_conv.h"

#include <torch/utils.h>

#include "testing.h"

namespace propagator::nn {
namespace {

using testing::near;
using testing::random;
using torch::Tensor;

GridConv conv_of(const GridConvOptions& options) {
  GridConv layer(options);
  layer->to(torch::kFloat64);
  const torch::NoGradGuard no_grad;
  for (auto& item : layer->named_parameters()) {
    item.value().copy_(random(item.value().sizes(), item.key()));
  }
  return layer;
}

// The node that stands at place n of an axis, which may be beyond its ends.
int64_t node_at(int64_t n, int64_t nodes, bool periodic) {
  return periodic ? (n % nodes + nodes) % nodes
                  : std::min(std::max<int64_t>(n, 0), nodes - 1);
}

// By the sum over neighbours, of two axes.
TEST(NnGridConv, IsTheSumOverNeighbours) {
  for (const bool first : {true, false}) {
    for (const bool second : {true, false}) {
      auto layer =
          conv_of({.in = 2, .out = 3, .periodic = {first, second}, .reach = 2});
      const auto x = random({2, 5, 6, 2}, "x");
      const auto weight = layer->named_parameters()["weight"];
      const auto bias = layer->named_parameters()["bias"];
      const auto y = layer(x);
      for (int64_t i = 0; i < 5; ++i) {
        for (int64_t j = 0; j < 6; ++j) {
          auto expected = bias.expand({2, 3});
          for (int64_t a = -2; a <= 2; ++a) {
            for (int64_t b = -2; b <= 2; ++b) {
              const auto at = x.select(1, node_at(i + a, 5, first))
                                  .select(1, node_at(j + b, 6, second));
              const auto w = weight.select(3, b + 2).select(2, a + 2);
              expected = expected + torch::matmul(at, w.t());
            }
          }
          EXPECT_TRUE(
              near(y.select(1, i).select(1, j), expected, testing::kFloat64));
        }
      }
    }
  }
}

TEST(NnGridConv, WorksAlongOneAndThreeAxes) {
  for (const size_t axes : {1U, 3U}) {
    auto layer =
        conv_of({.in = 1, .out = 2, .periodic = std::vector<bool>(axes, true)});
    std::vector<int64_t> shape(axes + 2, 4), along(axes), by(axes, 1);
    shape.front() = 2;
    shape.back() = 1;
    for (size_t d = 0; d < axes; ++d) along[d] = static_cast<int64_t>(d) + 1;
    const auto x = random(shape, "x");
    EXPECT_TRUE(near(layer(torch::roll(x, by, along)),
                     torch::roll(layer(x), by, along), testing::kFloat64));
  }
}

TEST(NnGridConv, AStrideTakesEveryOtherNode) {
  auto whole = conv_of({.in = 1, .out = 1});
  auto half = conv_of({.in = 1, .out = 1, .stride = 2});
  const auto x = random({1, 8, 1}, "x");
  EXPECT_TRUE(near(half(x), whole(x).slice(1, 0, 8, 2), testing::kFloat64));
}

TEST(NnGridConv, MayHaveNoBias) {
  auto layer = conv_of({.in = 2, .out = 3, .bias = false});
  EXPECT_EQ(layer->named_parameters().size(), 1U);
  const auto x = random({1, 8, 2}, "x");
  EXPECT_TRUE(near(layer(2 * x), 2 * layer(x), testing::kFloat64));
}

TEST(NnGridConv, AFinerGridHasEveryNodeTwiceAlongEachAxis) {
  const auto x = random({2, 3, 4, 5}, "x");
  const auto fine = refined(x, 2);
  ASSERT_EQ(fine.sizes(), torch::IntArrayRef({2, 6, 8, 5}));
  for (int64_t i = 0; i < 6; ++i) {
    for (int64_t j = 0; j < 8; ++j) {
      EXPECT_TRUE(torch::equal(fine.select(1, i).select(1, j),
                               x.select(1, i / 2).select(1, j / 2)));
    }
  }
}

TEST(NnGridConv, GradientsAreRight) {
  auto layer = conv_of({.in = 2, .out = 2, .periodic = {true, false}});
  EXPECT_TRUE(testing::gradient_is_right(
      [&](const Tensor& v) { return layer(v).square().sum(); },
      random({1, 4, 5, 2}, "x")));
}

TEST(NnGridConv, SaysWhatDoesNotFit) {
  auto layer =
      conv_of({.in = 1, .out = 1, .periodic = {true, true}, .reach = 3});
  const auto message = testing::thrown<std::invalid_argument>([&] {
    layer(torch::zeros({1, 2, 8, 1}, torch::kFloat64));
  });
  EXPECT_NE(message.find("expected cases on 2 axes of 3 nodes"),
            std::string::npos)
      << message;
}

}  // namespace
}  // namespace propagator::nn
