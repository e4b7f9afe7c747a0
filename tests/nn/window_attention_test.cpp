#include "propagator/nn/window_attention.h"

#include <torch/utils.h>

#include "propagator/nn/wavelet_block.h"
#include "testing.h"

namespace propagator::nn {
namespace {

using autodiff::Jet;
using autodiff::JetLayout;
using testing::near;
using torch::Tensor;

constexpr testing::Tolerance kExact{1e-10, 1e-11};
constexpr testing::Tolerance kByDifferences{1e-5, 1e-6};

WindowAttention make(RelativePosition position, int64_t axes) {
  WindowAttention layer(WindowAttentionOptions{
      .width = 8, .heads = 2, .position = position, .axes = axes});
  layer->to(torch::kFloat64);
  const torch::NoGradGuard no_grad;
  for (auto& item : layer->named_parameters()) {
    item.value().copy_(testing::random(item.value().sizes(), item.key()));
  }
  return layer;
}

// Tokens that depend on places as a network's would, and their attention.
Jet attend(WindowAttention& layer, const Jet& places) {
  const auto w = testing::random({8, 2}, "tokens");
  const auto tokens = autodiff::sin(autodiff::linear(places, w));
  return layer->forward(tokens, tokens, {places.value()});
}

TEST(NnWindowAttention, PlainValueIsTextbookAttention) {
  auto layer = make(RelativePosition::kNone, 0);
  const auto x = testing::random({3, 4, 8}, "x");
  const auto got = layer->forward(Jet::constant(x), Jet::constant(x), {});
  const auto p = layer->named_parameters();
  const auto project = [&](const std::string& name, int64_t from, int64_t to) {
    return torch::linear(x, p[name + ".weight"].slice(0, from, to),
                         p[name + ".bias"].slice(0, from, to));
  };
  const auto q = project("query", 0, 8), k = project("key_value", 0, 8),
             v = project("key_value", 8, 16);
  std::vector<Tensor> heads;
  for (int64_t h = 0; h < 2; ++h) {
    const auto part = [h](const Tensor& t) {
      return t.slice(-1, 4 * h, 4 * h + 4);
    };
    const auto scores = torch::matmul(part(q), part(k).transpose(1, 2)) / 2.0;
    heads.push_back(torch::matmul(torch::softmax(scores, -1), part(v)));
  }
  const auto expected = torch::linear(torch::cat(heads, -1), p["output.weight"],
                                      p["output.bias"]);
  EXPECT_TRUE(near(got.value(), expected, kExact));
}

class NnWindowPositions : public ::testing::TestWithParam<RelativePosition> {};

TEST_P(NnWindowPositions, DependOnDifferencesAlone) {
  auto layer = make(GetParam(), 2);
  const auto x = Jet::constant(testing::random({3, 4, 8}, "x"));
  const auto places = testing::random({3, 4, 2}, "places");
  const auto here = layer->forward(x, x, {places});
  const auto moved = layer->forward(x, x, {places + 0.37});
  const auto spread = layer->forward(x, x, {places * 1.5});
  EXPECT_TRUE(near(here.value(), moved.value(), kExact));
  EXPECT_FALSE(near(here.value(), spread.value(), kExact));
}

TEST_P(NnWindowPositions, DerivativesOfAMovingWindowAgreeWithDifferences) {
  auto layer = make(GetParam(), 2);
  const auto places = testing::random({3, 4, 2}, "places");
  const auto direction = torch::tensor({{0.6, 0.8}}, torch::kFloat64);
  const auto y = attend(layer, Jet::moving(places, direction, JetLayout({2})));
  const auto value = [&](double s) {
    return attend(layer, Jet::constant(places + s * direction)).value();
  };
  const double h = 1e-4;
  EXPECT_TRUE(
      near(y.rows()[1], (value(h) - value(-h)) / (2 * h), kByDifferences));
  EXPECT_TRUE(near(2 * y.rows()[2],
                   (value(h) - 2 * value(0) + value(-h)) / (h * h),
                   kByDifferences));
}

INSTANTIATE_TEST_SUITE_P(Nn, NnWindowPositions,
                         ::testing::Values(RelativePosition::kRope,
                                           RelativePosition::kAlibi));

TEST(NnWindowAttention, AlibiFavoursTheNear) {
  auto layer = make(RelativePosition::kAlibi, 1);
  // One token far away from three: with equal contents it gets less weight.
  const auto x = torch::zeros({1, 4, 8}, torch::kFloat64);
  auto value = testing::random({1, 4, 8}, "values");
  const auto places =
      torch::tensor({0.0, 0.0, 0.0, 5000.0}, torch::kFloat64).view({1, 4, 1});
  const auto source = Jet::constant(value);
  const auto near_by = layer->forward(Jet::constant(x), source, {places});
  value[0][3] += 1e-3;  // what the far token says hardly matters
  const auto changed =
      layer->forward(Jet::constant(x), Jet::constant(value), {places});
  const auto effect = (changed.value() - near_by.value())[0].abs().amax(-1);
  EXPECT_LT(effect[0].item<double>(), 0.5 * effect[3].item<double>());
}

}  // namespace
}  // namespace propagator::nn
