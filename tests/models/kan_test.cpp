#include "propagator/models/kan.h"

#include <torch/utils.h>

#include "jet_checks.h"
#include "propagator/core/error.h"
#include "propagator/nn/init.h"
#include "propagator/nn/spline.h"

namespace propagator::models {
namespace {

using autodiff::Jet;
using propagator::testing::near;
using propagator::testing::random;
using propagator::testing::thrown;
using torch::Tensor;

const FieldDomain kKanDomain{{-1, -1}, {1, 2}, 2, 1};

std::shared_ptr<FieldNet> small_kan() {
  KanOptions options;
  options.widths = "3,4";
  auto net = options.make(kKanDomain);
  net->initialise(3);
  net->to(torch::kFloat64);
  const torch::NoGradGuard no_grad;
  // So that splines matter as much as silu.
  for (auto& item : net->named_parameters()) {
    if (item.key().ends_with("coefficients")) item.value().mul_(10);
  }
  return net;
}

Tensor kan_points() { return random({4, 2, 2}, "points"); }

testing::MovingPoints kan_moving() {
  return {kan_points(), random({2, 2}, "directions")};
}

TEST(ModelsKan, HasThePublishedNumberOfParameters) {
  const auto net = KanOptions().make({{0, 0}, {1, 1}, 1, 1});
  int64_t all = 0;
  for (const auto& parameter : net->parameters()) all += parameter.numel();
  EXPECT_EQ(all, 891);
  EXPECT_EQ(nn::parameter_count(*net), 411);
}

TEST(ModelsKan, OneEdgeByHand) {
  // φ(x) + b at the middle of the domain [0, 4], which is 0 of the grid: the
  // middle of an interval, where the cubic splines are 1, 23, 23, 1 over 48.
  KanOptions options;
  options.widths = "";
  auto net = options.make({{0}, {4}, 1, -1});
  net->to(torch::kFloat64);
  const torch::NoGradGuard no_grad;
  auto p = net->named_parameters();
  p["layer1.coefficients"].copy_(
      torch::arange(8, torch::kFloat64).view({1, 1, 8}));
  p["layer1.scale_spline"].fill_(2);
  p["layer1.scale_base"].fill_(3);
  p["layer1.bias"].fill_(0.25);
  const auto at = torch::tensor({2.0, 200.0}, torch::kFloat64);
  const auto u = net->values(at.view({2, 1, 1})).flatten();
  const double splines = (2 * 1 + 3 * 23 + 4 * 23 + 5 * 1) / 48.0;
  EXPECT_NEAR(u[0].item<double>(), 2 * splines + 0.25, 1e-6);
  // Far outside of the grid only silu is left: 200 is 99 of the grid.
  EXPECT_NEAR(u[1].item<double>(), 3 * 99 + 0.25, 1e-4);
}

TEST(ModelsKan, IsTheSumOfItsEdges) {
  auto net = small_kan();
  const torch::NoGradGuard no_grad;
  auto p = net->named_parameters();
  const auto low = torch::tensor(kKanDomain.low, torch::kFloat64);
  const auto high = torch::tensor(kKanDomain.high, torch::kFloat64);
  auto x = (kan_points() - low) / (high - low) * 2 - 1;
  for (const std::string layer : {"layer1.", "layer2.", "layer3."}) {
    const auto c = p[layer + "coefficients"];
    std::vector<Tensor> nodes;
    for (int64_t o = 0; o < c.size(0); ++o) {
      auto sum = p[layer + "bias"][o].expand({4, 2}).clone();
      for (int64_t i = 0; i < c.size(1); ++i) {
        const auto in = x.select(-1, i);
        const auto basis =
            nn::spline_basis(Jet::constant(in), p[layer + "knots"][o][i], 3);
        sum += p[layer + "scale_base"][o][i] * in * torch::sigmoid(in) +
               p[layer + "scale_spline"][o][i] *
                   torch::matmul(basis.value(), c[o][i]);
      }
      nodes.push_back(sum);
    }
    x = torch::stack(nodes, -1);
  }
  // The scales of the inputs were rounded to float32 when the net was made.
  EXPECT_TRUE(near(net->values(kan_points()), x, {1e-6, 1e-6}));
}

TEST(ModelsKan, DerivativesEqualNestedReverseMode) {
  auto net = small_kan();
  EXPECT_TRUE(testing::derivatives_are_nested(testing::jet_map(*net),
                                              kan_moving(), 3, {1e-9, 1e-10}));
}

TEST(ModelsKan, DerivativesAreThoseOfDifferences) {
  auto net = small_kan();
  EXPECT_TRUE(testing::derivatives_are_differences(
      testing::jet_map(*net), kan_moving(), 3, {1e-6, 1e-6}));
}

TEST(ModelsKan, ParameterGradientsOfASecondDerivative) {
  auto net = small_kan();
  EXPECT_TRUE(testing::parameter_gradients_are_nested(
      *net, testing::jet_map(*net), kan_moving(), 2, {1e-8, 1e-9}));
}

TEST(ModelsKan, InitialisesByPathAndSeed) {
  auto a = KanOptions().make(kKanDomain), b = KanOptions().make(kKanDomain);
  a->initialise(1);
  b->initialise(1);
  const auto first = a->values(kan_points().to(torch::kFloat32));
  EXPECT_TRUE(torch::equal(first, b->values(kan_points().to(torch::kFloat32))));
  b->initialise(2);
  EXPECT_FALSE(
      torch::equal(first, b->values(kan_points().to(torch::kFloat32))));
}

TEST(ModelsKan, OptionsSayWhatIsWrong) {
  KanOptions options;
  EXPECT_EQ(options.smoothness(), 2);
  EXPECT_FALSE(options.windowed());
  options.widths = "5,x";
  EXPECT_NE(thrown<ConfigError>([&] {
              options.validate(kKanDomain);
            }).find("got '5,x'"),
            std::string::npos);
  options = {};
  options.grid_high = -2;
  EXPECT_THROW(options.validate(kKanDomain), ConfigError);
  options = {};
  EXPECT_THROW(options.validate({{0, 1}, {1, 1}, 1, 1}), ConfigError);
  options.scale_inputs = false;
  EXPECT_NO_THROW(options.validate({{0, 1}, {1, 1}, 1, 1}));
}

}  // namespace
}  // namespace propagator::models
