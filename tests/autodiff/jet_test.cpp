#include "propagator/autodiff/jet.h"

#include <torch/autograd.h>

#include <cmath>

#include "testing.h"

namespace propagator::autodiff {
namespace {

using testing::near;
using testing::Tolerance;
using torch::Tensor;

constexpr Tolerance kNested{1e-9, 1e-10};
constexpr Tolerance kByDifferences{1e-5, 1e-6};

// f takes points (N, D) and gives (N): a network in tensors.
using Plain = std::function<Tensor(const Tensor&)>;
// The same on jets: (M; N, D) → (M; N).
using OnJets = std::function<Jet(const Jet&)>;

// ∂ᵏf/∂dᵏ at every point by differentiating again and again in reverse.
Tensor nested(const Plain& f, const Tensor& points, const Tensor& direction,
              int64_t order) {
  const auto x = points.detach().clone().set_requires_grad(true);
  auto y = f(x);
  for (int64_t k = 0; k < order; ++k) {
    const auto gradient = torch::autograd::grad({y.sum()}, {x}, {}, true,
                                                /*create_graph=*/true)[0];
    y = gradient.matmul(direction);
  }
  return y;
}

double factorial(int64_t k) { return std::tgamma(static_cast<double>(k + 1)); }

// A small network with its weights: tanh, waves, products, sigmoid.
struct SmallNet {
  Tensor w1 = testing::random({8, 2}, "w1"), b1 = testing::random({8}, "b1");
  Tensor w2 = testing::random({8, 8}, "w2"), b2 = testing::random({8}, "b2");
  Tensor w3 = testing::random({1, 8}, "w3");
  Tensor s = testing::random({1}, "s"), c = testing::random({1}, "c");

  Tensor plain(const Tensor& x) const {
    auto h = torch::tanh(torch::linear(x, w1, b1));
    const auto g = torch::linear(h, w2, b2);
    h = h * (s * torch::sin(g) + c * torch::cos(g));
    return torch::linear(h, w3).squeeze(-1);
  }
  Jet jets(const Jet& x) const {
    auto h = tanh(linear(x, w1, b1));
    h = h * waves(linear(h, w2, b2), s, c);
    return sum(linear(h, w3), -1, false);
  }
};

void expect_derivatives(const OnJets& jets, const Plain& plain,
                        const Tensor& points, int64_t order) {
  const auto directions =
      torch::tensor({{1.0, 0.0}, {0.3, -0.7}}, torch::kFloat64);
  const JetLayout layout({order, order - 1});
  const auto y = jets(Jet::moving(points, directions, layout));
  EXPECT_TRUE(near(y.value(), plain(points), kNested));
  for (int64_t r = 0; r < 2; ++r) {
    for (int64_t k = 1; k <= order - r; ++k) {
      const auto got = y.rows()[layout.row(r, k)] * factorial(k);
      EXPECT_TRUE(near(got, nested(plain, points, directions[r], k), kNested))
          << "direction " << r << ", order " << k;
    }
  }
}

TEST(AutodiffJet, LayoutCountsRows) {
  const JetLayout layout({3, 2, 1});
  EXPECT_EQ(layout.rows(), 7);
  EXPECT_EQ(layout.directions(1), 3);
  EXPECT_EQ(layout.directions(2), 2);
  EXPECT_EQ(layout.directions(3), 1);
  EXPECT_EQ(layout.row(1, 2), 5);
  EXPECT_EQ(layout.row(0, 3), 6);
  EXPECT_EQ(JetLayout().rows(), 1);
  EXPECT_THROW(JetLayout({1, 2}), std::invalid_argument);
  EXPECT_THROW(JetLayout({1, 0}), std::invalid_argument);
}

TEST(AutodiffJet, NetworkToOrderFourAgreesWithNestedReverseMode) {
  const SmallNet net;
  expect_derivatives([&](const Jet& x) { return net.jets(x); },
                     [&](const Tensor& x) { return net.plain(x); },
                     testing::random({5, 2}, "points"), 4);
}

TEST(AutodiffJet, SecondDerivativeAgreesWithDifferences) {
  const SmallNet net;
  const auto points = testing::random({6, 2}, "points");
  const auto direction = torch::tensor({{0.6, 0.8}}, torch::kFloat64);
  const auto y = net.jets(Jet::moving(points, direction, JetLayout({2})));
  const double h = 1e-4;
  const auto difference =
      (net.plain(points + h * direction) - 2 * net.plain(points) +
       net.plain(points - h * direction)) /
      (h * h);
  EXPECT_TRUE(near(2 * y.rows()[2], difference, kByDifferences));
}

TEST(AutodiffJet, ParameterGradientOfAResidualAgreesWithNested) {
  SmallNet net;
  const auto points = testing::random({5, 2}, "points");
  const auto along = torch::tensor({1.0, 0.0}, torch::kFloat64);
  std::vector<Tensor> weights{net.w1, net.b1, net.w2, net.b2,
                              net.w3, net.s,  net.c};
  for (auto& w : weights) w.set_requires_grad(true);
  const auto y =
      net.jets(Jet::moving(points, along.unsqueeze(0), JetLayout({2})));
  const auto by_jets = torch::autograd::grad(
      {(2 * y.rows()[2] - y.value() * y.rows()[1]).square().mean()}, weights);
  const Plain plain = [&](const Tensor& x) { return net.plain(x); };
  const auto first = nested(plain, points, along, 1);
  const auto second = nested(plain, points, along, 2);
  const auto by_nested = torch::autograd::grad(
      {(second - plain(points) * first).square().mean()}, weights);
  for (size_t i = 0; i < weights.size(); ++i) {
    EXPECT_TRUE(near(by_jets[i], by_nested[i], kNested)) << i;
  }
}

// libtorch's own layer_norm is wrong from the third derivative on.
Tensor normalised(const Tensor& x) {
  const auto centred = x - x.mean(-1, true);
  return centred / torch::sqrt(centred.square().mean(-1, true) + 1e-5);
}

// A function of one variable, on jets and plain, at points where it is smooth.
struct Function {
  const char* name;
  Jet (*jets)(const Jet&);
  Tensor (*plain)(const Tensor&);
  double low, high;
};

class AutodiffJetFunctions : public ::testing::TestWithParam<Function> {};

TEST_P(AutodiffJetFunctions, ToOrderFour) {
  const auto& f = GetParam();
  const auto x =
      f.low + (f.high - f.low) * (testing::random({7, 2}, f.name) * 0.5 + 0.5);
  expect_derivatives(
      [&](const Jet& p) {
        return sum(f.jets(sum(p * p, -1, true) * 0.5 + p), -1, false);
      },
      [&](const Tensor& p) {
        return f.plain(p.square().sum(-1, true) * 0.5 + p).sum(-1);
      },
      x, 4);
}

TEST(AutodiffJet, SmallHyperbolicSinesKeepTheirDigits) {
  const auto x = torch::full({1}, 1e-6, torch::kFloat32);
  EXPECT_FLOAT_EQ(sinh(Jet::constant(x)).value().item<float>(), 1e-6f);
}

INSTANTIATE_TEST_SUITE_P(
    Autodiff, AutodiffJetFunctions,
    ::testing::Values(
        Function{"sin", sin, torch::sin, -2, 2},
        Function{"cos", cos, torch::cos, -2, 2},
        Function{"tan", tan, torch::tan, 0, 0.4},
        Function{"exp", exp, torch::exp, -1, 1},
        Function{"log", log, torch::log, 0.5, 2},
        Function{"sqrt", sqrt, torch::sqrt, 0.5, 2},
        Function{"tanh", tanh, torch::tanh, -2, 2},
        Function{"sinh", sinh, torch::sinh, -1, 1},
        Function{"cosh", cosh, torch::cosh, -1, 1},
        Function{"sigmoid", sigmoid, torch::sigmoid, -2, 2},
        Function{"gelu", gelu,
                 [](const Tensor& x) {
                   return x * 0.5 * torch::erfc(x * -std::sqrt(0.5));
                 },
                 -2, 2},
        Function{"silu", silu,
                 [](const Tensor& x) { return x * torch::sigmoid(x); }, -2, 2},
        Function{"softplus", softplus,
                 [](const Tensor& x) { return torch::log1p(torch::exp(x)); },
                 -2, 2},
        Function{"abs", abs, torch::abs, 0.5, 2},
        Function{"reciprocal", reciprocal, torch::reciprocal, 0.5, 2},
        Function{"cube", [](const Jet& x) { return pow(x, 3); },
                 [](const Tensor& x) { return torch::pow(x, 3); }, -2, 2},
        Function{
            "quotient", [](const Jet& x) { return sin(x) / (x * x + 1.0); },
            [](const Tensor& x) { return torch::sin(x) / (x * x + 1); }, -2, 2},
        Function{"softmax",
                 [](const Jet& x) { return softmax(x) * narrow(x, -1, 0, 1); },
                 [](const Tensor& x) {
                   return torch::softmax(x, -1) * x.narrow(-1, 0, 1);
                 },
                 -2, 2},
        Function{"layer_norm",
                 [](const Jet& x) {
                   return layer_norm(cat({x, x * x}, -1), {}, {}, 1e-5) *
                          cat({x, sin(x)}, -1);
                 },
                 [](const Tensor& x) {
                   return normalised(torch::cat({x, x * x}, -1)) *
                          torch::cat({x, torch::sin(x)}, -1);
                 },
                 0.3, 2}),
    [](const auto& info) { return info.param.name; });

// The row-sum property: a direction that moves all tokens of a window together
// differentiates output i by the motion of the whole window.
TEST(AutodiffJet, WindowMovesTogether) {
  const auto w = testing::random({4, 2}, "w");
  const auto mix = testing::random({3, 3}, "mix");  // tokens see each other
  const auto points = testing::random({5, 3, 2}, "window");
  const auto plain = [&](const Tensor& x) {
    const auto h = torch::sin(torch::linear(x, w));  // (N, T, 4)
    return torch::tanh(torch::matmul(mix, h)).sum(-1);
  };
  const auto time = torch::tensor({{0.0, 1.0}}, torch::kFloat64);
  const JetLayout layout({2});
  const auto x = Jet::moving(points, time, layout);
  const auto y =
      sum(tanh(matmul(Jet::constant(mix), sin(linear(x, w)))), -1, false);
  const double h = 1e-4;
  const auto ahead = plain(points + h * time),
             behind = plain(points - h * time);
  EXPECT_TRUE(near(y.rows()[1], (ahead - behind) / (2 * h), kByDifferences));
  EXPECT_TRUE(near(2 * y.rows()[2],
                   (ahead - 2 * plain(points) + behind) / (h * h),
                   kByDifferences));
}

TEST(AutodiffJet, WholePowersAreRightAtZero) {
  const auto x =
      Jet::moving(torch::zeros({1, 1}, torch::kFloat64),
                  torch::ones({1, 1}, torch::kFloat64), JetLayout({3}));
  const auto y = pow(x, 2);
  EXPECT_EQ(y.rows()[1].item<double>(), 0);
  EXPECT_EQ(y.rows()[2].item<double>(), 1);
  EXPECT_EQ(y.rows()[3].item<double>(), 0);
}

TEST(AutodiffJet, BadShapesAreTold) {
  const auto points = testing::random({3, 2}, "points");
  EXPECT_THROW(Jet(points, JetLayout({1})), std::invalid_argument);
  EXPECT_THROW(Jet::moving(points, torch::ones({1, 3}), JetLayout({1})),
               std::invalid_argument);
  const auto a =
      Jet::moving(points, torch::ones({1, 2}, torch::kFloat64), JetLayout({1}));
  const auto b =
      Jet::moving(points, torch::ones({1, 2}, torch::kFloat64), JetLayout({2}));
  EXPECT_THROW(a * b, std::invalid_argument);
  EXPECT_THROW(compose(b, {points, points}), std::invalid_argument);
}

}  // namespace
}  // namespace propagator::autodiff
