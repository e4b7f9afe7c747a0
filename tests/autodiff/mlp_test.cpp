#include "propagator/autodiff/mlp.h"

#include <ATen/Parallel.h>
#include <torch/autograd.h>
#include <torch/utils.h>

#include <cmath>
#include <limits>

#include "propagator/autodiff/point_gradients.h"
#include "propagator/core/error.h"
#include "propagator/kernels/vector_math.h"
#include "testing.h"

namespace propagator::autodiff {
namespace {

using kernels::JetActivation;
using propagator::testing::gradient_is_right;
using propagator::testing::near;
using propagator::testing::random;
using propagator::testing::Tolerance;
using torch::Tensor;

constexpr int64_t kMany = 150;  // points: two whole tiles and a part of one

kernels::JetMlp network(const std::vector<int64_t>& widths,
                        JetActivation activation,
                        torch::ScalarType type = torch::kFloat64) {
  kernels::JetMlp net;
  net.activation = activation;
  for (size_t l = 0; l + 1 < widths.size(); ++l) {
    const auto name = fmt::format("layer {}", l);
    net.weights.push_back(
        (0.8 * random({widths[l + 1], widths[l]}, name)).to(type));
    net.biases.push_back((0.5 * random({widths[l + 1]}, name + "b")).to(type));
    net.scales.push_back(activation == JetActivation::kSine ? 1.5 : 1);
    net.weights.back().set_requires_grad(true);
    net.biases.back().set_requires_grad(true);
  }
  return net;
}

// Layer by layer, whatever the kernel takes.
Jet plain(const Jet& x, const kernels::JetMlp& net) {
  auto h = x;
  for (size_t l = 0; l < net.weights.size(); ++l) {
    h = linear(h, net.weights[l] * net.scales[l],
               net.biases[l] * net.scales[l]);
    if (l + 1 == net.weights.size()) break;
    h = net.activation == JetActivation::kTanh ? tanh(h) : sin(h);
  }
  return h;
}

std::vector<JetLayout> layouts() {
  return {JetLayout({1}),
          JetLayout({2, 1}),
          JetLayout({3, 3, 1}),
          JetLayout({4, 2, 2}),
          JetLayout({4, 4, 3, 1}),
          JetLayout::summed({2, 2}, {1, -1}),
          JetLayout::summed({2, 2, 1}, {-1, 1})};
}

std::vector<Tensor> parameters_of(const kernels::JetMlp& net) {
  auto all = net.weights;
  all.insert(all.end(), net.biases.begin(), net.biases.end());
  return all;
}

// The answer, and the gradients by the rows and all parameters.
std::vector<Tensor> passed(const std::function<Jet(const Jet&)>& way,
                           const Tensor& rows, const JetLayout& layout,
                           const kernels::JetMlp& net) {
  const auto x = rows.detach().clone().set_requires_grad(true);
  const auto y = way(Jet(x, layout)).rows();
  auto inputs = parameters_of(net);
  inputs.push_back(x);
  const auto seed = random(y.sizes(), "seed").to(y.scalar_type());
  auto all = torch::autograd::grad({y}, inputs, {seed});
  all.push_back(y.detach());
  return all;
}

TEST(AutodiffMlp, KernelIsLayerByLayer) {
  for (const auto activation : {JetActivation::kTanh, JetActivation::kSine}) {
    for (const auto& layout : layouts()) {
      for (const auto type : {torch::kFloat64, torch::kFloat32}) {
        const auto net = network({3, 7, 20, 2}, activation, type);
        const auto rows = random({layout.rows(), kMany, 1, 3}, "x").to(type);
        auto described = net;
        described.series = series_of(layout);
        ASSERT_TRUE(kernels::has_jet_mlp(rows, described));
        const auto ours = passed([&](const Jet& x) { return mlp(x, net); },
                                 rows, layout, net);
        const auto theirs = passed([&](const Jet& x) { return plain(x, net); },
                                   rows, layout, net);
        ASSERT_EQ(ours.size(), theirs.size());
        const bool fine = type == torch::kFloat64;
        for (size_t n = 0; n < ours.size(); ++n) {
          const double size = theirs[n].abs().max().item<double>();
          const Tolerance tolerance{0, (fine ? 1e-13 : 1e-5) * (1 + size)};
          EXPECT_TRUE(near(ours[n], theirs[n], tolerance)) << n;
        }
      }
    }
  }
}

TEST(AutodiffMlp, GradientIsThatOfDifferences) {
  const JetLayout layout({4, 2});
  auto net = network({2, 5, 4, 1}, JetActivation::kTanh);
  const auto rows = random({layout.rows(), 6, 1, 2}, "x");
  const auto weigh = random({layout.rows(), 6, 1, 1}, "w");
  for (size_t l = 0; l < net.weights.size(); ++l) {
    EXPECT_TRUE(gradient_is_right(
        [&](const Tensor& weight) {
          auto changed = net;
          changed.weights[l] = weight;
          return (mlp(Jet(rows, layout), changed).rows() * weigh).sum();
        },
        net.weights[l].detach()));
  }
  EXPECT_TRUE(gradient_is_right(
      [&](const Tensor& x) {
        return (mlp(Jet(x, layout), net).rows() * weigh).sum();
      },
      rows));
}

TEST(AutodiffMlp, BitsDoNotDependOnThreads) {
  const JetLayout layout({2, 1});
  const auto net = network({2, 20, 20, 1}, JetActivation::kTanh);
  const auto rows = random({layout.rows(), 1000, 1, 2}, "x");
  const auto pass = [&] {
    return passed([&](const Jet& x) { return mlp(x, net); }, rows, layout, net);
  };
  const int threads = at::get_num_threads();
  const auto together = pass();
  at::set_num_threads(1);
  const auto alone = pass();
  at::set_num_threads(threads);
  for (size_t n = 0; n < alone.size(); ++n) {
    EXPECT_TRUE(torch::equal(alone[n], together[n])) << n;
  }
}

TEST(AutodiffMlp, OthersTakeNoKernel) {
  auto net = network({2, 65, 1}, JetActivation::kTanh);
  const auto rows = random({1, 5, 2}, "x");
  EXPECT_FALSE(kernels::has_jet_mlp(rows, net));
  EXPECT_FALSE(kernels::has_jet_mlp(rows.to(torch::kBFloat16), net));
  // A constant that may be differentiated twice is so.
  net = network({2, 8, 1}, JetActivation::kTanh);
  const auto x = random({5, 2}, "x").set_requires_grad(true);
  const auto u = mlp(Jet::constant(x), net).value();
  const auto slope =
      torch::autograd::grad({u.sum()}, {x}, {}, true, /*create_graph=*/true)[0];
  const auto second = torch::autograd::grad({slope.sum()}, {x})[0];
  EXPECT_GT(second.abs().max().item<double>(), 0);
}

// All parameters as views of one buffer, with a gap in front.
Tensor in_one_buffer(kernels::JetMlp& net) {
  int64_t size = 3;
  for (const auto& one : parameters_of(net)) size += one.numel();
  auto flat =
      torch::zeros({size}, net.weights[0].options().requires_grad(false));
  int64_t at = 3;
  for (auto* all : {&net.weights, &net.biases}) {
    for (auto& one : *all) {
      auto part = flat.narrow(0, at, one.numel()).view(one.sizes());
      part.copy_(one.detach());
      at += one.numel();
      one = part.detach().set_requires_grad(true);
    }
  }
  return flat;
}

TEST(AutodiffMlp, GradientsAtPointsAreThoseOneByOne) {
  const int64_t points = 70;
  for (const int64_t width : {9, 65}) {  // by the kernel, and layer by layer
    for (const auto& layout : {JetLayout({2, 1}), JetLayout({4, 3})}) {
      for (const auto activation :
           {JetActivation::kTanh, JetActivation::kSine}) {
        auto net = network({2, width, 4, 2}, activation);
        const auto flat = in_one_buffer(net);
        // Two blocks, as the two ends of a periodic condition.
        const auto rows = random({layout.rows(), 2 * points, 1, 2}, "x");
        PointGradients passed;
        EXPECT_FALSE(passed.any());
        const auto y = mlp(Jet(rows, layout), net).rows();
        ASSERT_TRUE(passed.any());
        const auto here = y.narrow(1, 0, points),
                   there = y.narrow(1, points, points);
        const auto residuals = (here[0] * here[2]).sum(-1) +
                               there[layout.rows() - 1].square().sum(-1);
        auto all = torch::zeros({flat.numel(), points}, torch::kFloat64);
        passed.add(residuals, 0.5, flat, all);
        for (const int64_t n : {int64_t{0}, int64_t{31}, points - 1}) {
          const auto inputs = parameters_of(net);
          const auto expected = torch::autograd::grad(
              {residuals[n].sum() * 0.5}, inputs, {}, /*retain_graph=*/true);
          int64_t at = 3;
          for (const auto& one : expected) {
            EXPECT_TRUE(near(all.select(1, n).narrow(0, at, one.numel()),
                             one.flatten(), {1e-10, 1e-11}));
            at += one.numel();
          }
        }
        EXPECT_EQ(all.narrow(0, 0, 3).abs().max().item<double>(), 0);
        const auto elsewhere = torch::zeros({4}, torch::kFloat64);
        EXPECT_THROW(passed.add(residuals, 1, elsewhere, all), UsageError);
        passed.forget();
        EXPECT_FALSE(passed.any());
      }
    }
  }
}

template <class Real>
void expect_functions(double tolerance) {
  using kernels::Lanes;
  using Math = kernels::VectorMath<Real>;
  const Real huge = std::numeric_limits<Real>::infinity();
  std::vector<Real> numbers{0,          Real(-0.0), Real(1e-30), Real(0.3),
                            1,          -2,         10,          -25,
                            Real(3000), Real(1e7),  huge,        -huge};
  for (int n = 0; n < 400; ++n) {
    numbers.push_back(static_cast<Real>(std::sin(n) * std::pow(10, n % 9 - 6)));
  }
  for (const Real x : numbers) {
    typename Lanes<Real>::Vector all = {}, sine, cosine;
    all += x;
    const auto t = Math::tanh(all);
    EXPECT_NEAR(t[1], std::tanh(x), tolerance * std::abs(std::tanh(x))) << x;
    if (std::isinf(x)) continue;
    Math::sincos(all, sine, cosine);
    EXPECT_NEAR(sine[0], std::sin(x),
                tolerance * std::abs(std::sin(x)) + tolerance * 0.1)
        << x;
    EXPECT_NEAR(cosine[1], std::cos(x), tolerance) << x;
  }
  typename Lanes<Real>::Vector odd = {};
  odd[1] = std::numeric_limits<Real>::quiet_NaN();
  EXPECT_TRUE(std::isnan(Math::tanh(odd)[1]));
  EXPECT_EQ(Math::tanh(odd)[0], 0);
}

TEST(KernelsVectorMath, FunctionsAreTheLibrarys) {
  expect_functions<double>(2e-15);
  expect_functions<float>(1e-6);
}

}  // namespace
}  // namespace propagator::autodiff
