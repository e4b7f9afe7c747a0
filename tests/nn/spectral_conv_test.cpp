#include "propagator/nn/spectral_conv.h"

#include <fmt/format.h>
#include <torch/utils.h>

#include <atomic>
#include <cmath>
#include <numbers>
#include <numeric>
#include <thread>

#include "propagator/nn/init.h"
#include "testing.h"

namespace propagator::nn {
namespace {

using testing::near;
using testing::random;
using torch::Tensor;

SpectralConv made_convolution(int64_t in, int64_t out,
                              const std::vector<int64_t>& modes) {
  SpectralConv layer(SpectralConvOptions{.in = in, .out = out, .modes = modes});
  layer->to(torch::kFloat64);
  const torch::NoGradGuard no_grad;
  auto weight = layer->named_parameters()["weight"];
  weight.copy_(random(weight.sizes(), "weight"));
  return layer;
}

struct Grid {
  std::vector<int64_t> nodes, modes;
};
const std::vector<Grid> kGrids{{{7}, {3}},
                               {{6}, {3}},
                               {{6, 5}, {2, 2}},
                               {{4, 7}, {2, 1}},
                               {{4, 5, 6}, {2, 1, 2}}};

// (2, nodes…, channels)
std::vector<int64_t> batch_on(const Grid& grid, int64_t channels) {
  auto shape = grid.nodes;
  shape.insert(shape.begin(), 2);
  shape.push_back(channels);
  return shape;
}

// exp(i 2π k·x / n) at every node, for every kept frequency: (nodes, K) as
// cosines and sines, and how often each counts in a real field.
struct Waves {
  Tensor cosine, sine, times;
};
Waves waves_on(const Grid& grid) {
  const size_t axes = grid.nodes.size();
  Waves waves;
  std::vector<std::vector<int64_t>> frequencies{{}};
  for (size_t d = 0; d < axes; ++d) {
    std::vector<std::vector<int64_t>> longer;
    const int64_t m = grid.modes[d];
    for (const auto& before : frequencies) {
      for (int64_t j = 0; j < (d + 1 < axes ? 2 * m : m); ++j) {
        auto k = before;
        k.push_back(j < m ? j : j - 2 * m);
        longer.push_back(k);
      }
    }
    frequencies = longer;
  }
  std::vector<Tensor> angles;
  std::vector<double> times;
  for (const auto& k : frequencies) {
    auto angle = torch::zeros({1}, torch::kFloat64);
    for (size_t d = 0; d < axes; ++d) {
      const auto along = torch::arange(grid.nodes[d], torch::kFloat64) *
                         (2 * std::numbers::pi * static_cast<double>(k[d]) /
                          static_cast<double>(grid.nodes[d]));
      angle = (angle.unsqueeze(1) + along).flatten();
    }
    angles.push_back(angle);
    times.push_back(k.back() == 0 ? 1 : 2);
  }
  const auto all = torch::stack(angles, 1);
  return {torch::cos(all), torch::sin(all),
          torch::tensor(times, torch::kFloat64)};
}

TEST(NnSpectralConv, IsTheDirectSumOverItsModes) {
  for (const auto& grid : kGrids) {
    auto layer = made_convolution(3, 2, grid.modes);
    const auto x = random(batch_on(grid, 3), "x");
    const auto flat = x[1].flatten(0, -2);  // (nodes, in)
    const auto waves = waves_on(grid);
    const auto weight = layer->named_parameters()["weight"];
    const auto a = weight.select(-1, 0), b = weight.select(-1, 1);
    // x̂ = Σ x exp(-i …), ŷ = x̂ (a + i b), y = Re Σ ŷ exp(i …) / nodes.
    const auto re = torch::matmul(waves.cosine.t(), flat).unsqueeze(1);
    const auto im = -torch::matmul(waves.sine.t(), flat).unsqueeze(1);
    const auto out_re = (re.bmm(a) - im.bmm(b)).squeeze(1);  // (K, out)
    const auto out_im = (re.bmm(b) + im.bmm(a)).squeeze(1);
    const auto times = waves.times.unsqueeze(1);
    const auto expected = (torch::matmul(waves.cosine, out_re * times) -
                           torch::matmul(waves.sine, out_im * times)) /
                          static_cast<double>(flat.size(0));
    EXPECT_TRUE(near(layer(x)[1].flatten(0, -2), expected, {1e-11, 1e-12}))
        << fmt::format("{}", fmt::join(grid.nodes, " x "));
  }
}

TEST(NnSpectralConv, MovesWithItsInputOnAPeriodicGrid) {
  for (const auto& grid : kGrids) {
    auto layer = made_convolution(2, 2, grid.modes);
    const auto x = random(batch_on(grid, 2), "x");
    std::vector<int64_t> by, axes(grid.nodes.size());
    std::iota(axes.begin(), axes.end(), 1);
    for (const int64_t d : axes) by.push_back(2 * d - 1);
    EXPECT_TRUE(near(layer(torch::roll(x, by, axes)),
                     torch::roll(layer(x), by, axes), {1e-11, 1e-12}));
  }
}

TEST(NnSpectralConv, HighFrequenciesDoNotPass) {
  auto layer = made_convolution(1, 1, {2});
  const auto at = torch::arange(12, torch::kFloat64) * (std::numbers::pi / 6);
  const auto largest = [&](double frequency) {
    return layer(torch::cos(frequency * at).view({1, 12, 1}))
        .abs()
        .max()
        .item<double>();
  };
  EXPECT_GT(largest(1), 1e-2);
  EXPECT_LT(largest(2), 1e-12);
}

TEST(NnSpectralConv, GradientsAreRight) {
  for (const auto& grid : kGrids) {
    auto layer = made_convolution(2, 2, grid.modes);
    const auto x = random(batch_on(grid, 2), "x");
    EXPECT_TRUE(testing::gradient_is_right(
        [&](const Tensor& v) { return layer(v).square().sum(); }, x,
        {1e-5, 1e-7}));
    auto weight = layer->named_parameters()["weight"];
    layer(x).square().sum().backward();
    const auto way = random(weight.sizes(), "way");
    const double slope = (weight.grad() * way).sum().item<double>();
    const torch::NoGradGuard no_grad;
    const auto moved = [&](double s) {
      weight.add_(way, s);
      const double value = layer(x).square().sum().item<double>();
      weight.sub_(way, s);
      return value;
    };
    EXPECT_NEAR(slope, (moved(1e-5) - moved(-1e-5)) / 2e-5,
                1e-6 * std::abs(slope));
  }
}

TEST(NnSpectralConv, OneLayerServesEveryGridOnEveryDevice) {
  auto layer = made_convolution(2, 3, {2, 2});
  EXPECT_EQ(parameter_count(*layer), 2 * 2 * 4 * 2 * 3);
  for (const auto& device : testing::devices()) {
    for (const int64_t n : {4, 9}) {
      const auto x = random({3, n, n + 1, 2}, "x");
      layer->to(torch::kCPU, torch::kFloat64);
      const auto plain = layer(x);
      layer->to(device, torch::kFloat32);
      EXPECT_TRUE(
          near(layer(x.to(device, torch::kFloat32)).cpu().to(torch::kFloat64),
               plain, {1e-4, 1e-5}))
          << device;
    }
  }
}

TEST(NnSpectralConv, SaysWhatDoesNotFit) {
  auto layer = made_convolution(2, 2, {2, 2});
  for (const std::vector<int64_t>& shape : {std::vector<int64_t>{1, 4, 3, 2},
                                            {1, 4, 4, 3},
                                            {4, 4, 2},
                                            {4, 4, 4, 4, 2}}) {
    const auto message = testing::thrown<std::invalid_argument>(
        [&] { layer(torch::zeros(shape, torch::kFloat64)); });
    EXPECT_NE(message.find("[spectral_conv] expected cases on 2 axes"),
              std::string::npos)
        << message;
  }
}

// Each call has its own grid's waves, whoever calls beside it.
TEST(NnSpectralConv, IsAppliedFromSeveralThreadsOnGridsOfTheirOwn) {
  auto layer = made_convolution(2, 2, {2});
  std::atomic<int> same = 0;
  std::vector<std::thread> threads;
  for (int n = 0; n < 3; ++n) {
    const auto x = random({1, 6 + n, 2}, fmt::format("x{}", n));
    const auto expected = layer->forward(x).detach();
    threads.emplace_back([&, x, expected] {
      const torch::NoGradGuard no_grad;
      for (int k = 0; k < 100; ++k) {
        same += torch::equal(layer->forward(x), expected);
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(same, 300);
}

}  // namespace
}  // namespace propagator::nn
