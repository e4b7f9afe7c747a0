#include "propagator/nn/siren.h"

#include <fmt/format.h>
#include <torch/utils.h>

#include <cmath>

#include "jet_checks.h"
#include "propagator/nn/init.h"

namespace propagator::nn {
namespace {

using autodiff::Jet;
using autodiff::JetLayout;
using propagator::testing::kFloat64;
using propagator::testing::near;
using propagator::testing::random;
using propagator::testing::thrown;
using torch::Tensor;

const SirenOptions kSmall{.inputs = 2,
                          .outputs = 2,
                          .width = 6,
                          .layers = 3,
                          .first_w0 = 5,
                          .hidden_w0 = 3};

Siren make_siren(const SirenOptions& options = kSmall) {
  Siren net(options);
  net->initialise(3, "net");
  net->to(torch::kFloat64);
  return net;
}

testing::MovingPoints moving_points() {
  return {random({3, 2, 2}, "points"), random({2, 2}, "directions")};
}

TEST(NnSiren, OneLayerByHand) {
  // sin(w0 (w x + b)) has derivatives (w0 w)ᵏ sin(· + k π/2).
  SirenLayer layer(SirenLayerOptions{.in = 1, .out = 1, .w0 = 20});
  layer->to(torch::kFloat64);
  {
    const torch::NoGradGuard no_grad;
    layer->named_parameters()["linear.weight"].fill_(0.3);
    layer->named_parameters()["linear.bias"].fill_(-0.1);
  }
  const auto x = random({5, 1}, "x");
  for (int64_t order = 1; order <= 5; ++order) {
    const auto y = layer->forward(Jet::moving(
        x, torch::ones({1, 1}, torch::kFloat64), JetLayout({order})));
    double coefficient = 1;
    for (int64_t k = 0; k <= order; ++k) {
      if (k > 0) coefficient *= 20 * 0.3 / static_cast<double>(k);
      const double turn = static_cast<double>(k) * M_PI / 2;
      EXPECT_TRUE(near(y.rows()[k],
                       torch::sin(20 * (0.3 * x - 0.1) + turn) * coefficient,
                       {1e-11, 1e-11}))
          << "order " << k << " of " << order;
    }
  }
}

TEST(NnSiren, EqualsItsFormulaInPlainOperations) {
  auto net = make_siren();
  const auto p = net->named_parameters();
  auto x = moving_points().points;
  const auto linear = [&](const std::string& name) {
    return torch::linear(x, p[name + ".weight"], p[name + ".bias"]);
  };
  x = torch::sin(5 * linear("layer0.linear"));
  x = torch::sin(3 * linear("layer1.linear"));
  x = torch::sin(3 * linear("layer2.linear"));
  EXPECT_TRUE(near(net->forward(Jet::constant(moving_points().points)).value(),
                   linear("out"), {1e-11, 1e-12}));
  EXPECT_EQ(parameter_count(*net), 3 * 6 + 2 * 7 * 6 + 7 * 2);
}

TEST(NnSiren, DerivativesToOrderFour) {
  auto net = make_siren();
  const auto f = testing::jet_map(*net);
  EXPECT_TRUE(
      testing::derivatives_are_nested(f, moving_points(), 4, {1e-9, 1e-9}));
  // One order at a time: to the second the layers go through the kernel.
  for (int64_t order = 1; order <= 4; ++order) {
    EXPECT_TRUE(testing::derivatives_are_differences(f, moving_points(), order,
                                                     {1e-6, 1e-5}))
        << order;
    EXPECT_TRUE(testing::parameter_gradients_are_nested(
        *net, f, moving_points(), order, {1e-8, 1e-7}))
        << order;
  }
}

// A network modulated in each layer by a condition that moves with its points.
struct Modulated : torch::nn::Module {
  explicit Modulated(bool frequency) {
    for (int64_t n = 0; n < kSmall.layers; ++n) {
      films.push_back(register_module(
          fmt::format("film{}", n), Film(FilmOptions{.condition = 3,
                                                     .features = kSmall.width,
                                                     .frequency = frequency})));
    }
    to(torch::kFloat64);
    const torch::NoGradGuard no_grad;
    for (auto& item : named_parameters()) {
      item.value().add_(random(item.value().sizes(), item.key()) / 4);
    }
    net = register_module("net", make_siren());
  }

  Jet forward(const Jet& points) {
    const auto condition =
        autodiff::tanh(autodiff::linear(points, random({3, 2}, "condition")));
    std::vector<Modulation> by;
    for (auto& film : films) by.push_back(film->modulation(condition));
    return net->forward(points, by);
  }

  std::vector<Film> films;
  Siren net{nullptr};
};

class NnSirenFilm : public ::testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(Nn, NnSirenFilm, ::testing::Bool());

TEST_P(NnSirenFilm, EqualsTheDocumentsFormula) {
  Modulated net(GetParam());
  const auto p = net.named_parameters();
  const auto points = moving_points().points;
  const auto linear = [&](const std::string& name, const Tensor& x) {
    return torch::linear(x, p[name + ".weight"], p[name + ".bias"]);
  };
  const auto c =
      torch::tanh(torch::linear(points, random({3, 2}, "condition")));
  auto h = points;
  for (int64_t n = 0; n < kSmall.layers; ++n) {
    const auto by =
        linear(fmt::format("film{}.linear", n), c).split(kSmall.width, -1);
    auto w0 = torch::full({}, n == 0 ? 5.0 : 3.0, torch::kFloat64);
    if (GetParam()) w0 = w0 * by[2];
    h = torch::sin(
        w0 * (by[0] * linear(fmt::format("net.layer{}.linear", n), h) + by[1]));
  }
  EXPECT_TRUE(near(net.forward(Jet::constant(points)).value(),
                   linear("net.out", h), {1e-11, 1e-12}));
}

TEST_P(NnSirenFilm, DerivativesToOrderFour) {
  Modulated net(GetParam());
  const auto f = testing::jet_map(net);
  EXPECT_TRUE(
      testing::derivatives_are_nested(f, moving_points(), 4, {1e-9, 1e-9}));
  for (int64_t order = 1; order <= 4; ++order) {
    EXPECT_TRUE(testing::derivatives_are_differences(f, moving_points(), order,
                                                     {1e-6, 1e-5}))
        << order;
    EXPECT_TRUE(testing::parameter_gradients_are_nested(net, f, moving_points(),
                                                        order, {1e-8, 1e-7}))
        << order;
  }
}

TEST_P(NnSirenFilm, IsThePlainNetworkAtTheStart) {
  Modulated net(GetParam());
  for (auto& film : net.films) film->reset();
  const auto at = moving_points();
  const auto points = Jet::moving(at.points, at.directions, JetLayout({3, 2}));
  EXPECT_TRUE(near(net.forward(points).rows(), net.net->forward(points).rows(),
                   {1e-11, 1e-11}));
}

TEST(NnSiren, EachLayerWantsAModulation) {
  auto net = make_siren();
  EXPECT_EQ(thrown<std::invalid_argument>([&] {
              net->forward(Jet::constant(moving_points().points),
                           std::vector<Modulation>(2));
            }),
            "[siren] expected 3 modulations, one for each layer, got 2");
}

TEST(NnSiren, InitialisesInItsBounds) {
  // Uniform: filled to its ends, of variance bound²/3.
  Siren net(SirenOptions{.inputs = 2, .outputs = 3, .width = 200, .layers = 3});
  net->initialise(1, "net");
  const auto p = net->named_parameters();
  const auto is_uniform = [&](const std::string& name, double bound) {
    const auto value = p[name].to(torch::kFloat64);
    EXPECT_LE(value.abs().max().item<double>(), bound * (1 + 1e-6)) << name;
    EXPECT_GT(value.max().item<double>(), 0.95 * bound) << name;
    EXPECT_LT(value.min().item<double>(), -0.95 * bound) << name;
    EXPECT_NEAR(value.square().mean().item<double>() / (bound * bound), 1.0 / 3,
                0.06)
        << name;
  };
  const double hidden = std::sqrt(6.0 / 200) / 30;
  is_uniform("layer0.linear.weight", 1.0 / 2);
  is_uniform("layer0.linear.bias", 1 / std::sqrt(2.0));
  is_uniform("layer1.linear.weight", hidden);
  is_uniform("layer2.linear.weight", hidden);
  is_uniform("layer2.linear.bias", 1 / std::sqrt(200.0));
  is_uniform("out.weight", hidden);
  EXPECT_FALSE(
      torch::equal(p["layer1.linear.weight"], p["layer2.linear.weight"]));
}

TEST(NnSiren, LayersKeepTheSpreadOfTheirOutputs) {
  // The sine of a wide phase has the variance 1/2, after one layer as after
  // seven.
  auto x = Jet::constant(random({500, 2}, "x"));
  for (int64_t n = 0; n < 7; ++n) {
    SirenLayer layer(
        SirenLayerOptions{.in = n == 0 ? 2 : 256, .out = 256, .first = n == 0});
    layer->initialise(1, fmt::format("layer{}", n));
    layer->to(torch::kFloat64);
    x = layer->forward(x);
    EXPECT_NEAR(x.value().square().mean().item<double>(), 0.5, 0.05) << n;
  }
}

}  // namespace
}  // namespace propagator::nn
