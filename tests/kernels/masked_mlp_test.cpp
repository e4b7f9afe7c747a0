#include "propagator/kernels/masked_mlp.h"

#include <ATen/Parallel.h>
#include <torch/autograd.h>
#include <torch/utils.h>

#include <cmath>

#include "testing.h"

namespace propagator::kernels {
namespace {

using testing::near;
using testing::random;
using torch::Tensor;
using Tensors = std::vector<Tensor>;

struct Net {
  Tensor x, cotangent;
  Tensors layers;
};

// Rows and columns that fill no vector among others.
Net net_of(int64_t rows, int64_t in, int64_t width, int64_t hidden, int64_t out,
           torch::ScalarType type = torch::kFloat64) {
  Net net{random({rows, in}, "x"), random({rows, out}, "dy"), {}};
  for (int64_t n = 0; n <= hidden; ++n) {
    const int64_t from = n == 0 ? in : width, to = n < hidden ? width : out;
    const auto name = std::to_string(n);
    net.layers.push_back(random({to, from}, "w" + name));
    net.layers.push_back(random({to}, "b" + name));
    net.layers.push_back((random({to, from}, "m" + name) > 0));
  }
  for (auto* one : {&net.x, &net.cotangent}) *one = one->to(type);
  for (auto& one : net.layers) one = one.to(type);
  return net;
}

// The answer and its gradients by x, weights and biases.
Tensors results(Tensor (*map)(const Tensor&, const Tensors&), const Net& net) {
  const auto leaf = [](const Tensor& x) { return x.detach().requires_grad_(); };
  const auto x = leaf(net.x);
  auto layers = net.layers;
  Tensors inputs{x};
  for (size_t n = 0; n < layers.size(); ++n) {
    if (n % 3 == 2) continue;
    layers[n] = leaf(layers[n]);
    inputs.push_back(layers[n]);
  }
  const auto y = map(x, layers);
  auto all = torch::autograd::grad({y}, inputs, {net.cotangent});
  all.push_back(y);
  return all;
}

TEST(KernelsMaskedMlp, IsThatOfPlainOperationsWithItsGradients) {
  for (const auto& net : {net_of(1, 1, 1, 1, 1), net_of(70, 3, 17, 2, 5),
                          net_of(33, 2, 64, 3, 4), net_of(600, 9, 8, 2, 46)}) {
    ASSERT_TRUE(has_masked_mlp(net.x, net.layers));
    const auto found = results(masked_mlp, net),
               plain = results(masked_mlp_reference, net);
    for (size_t n = 0; n < plain.size(); ++n) {
      EXPECT_TRUE(near(found[n], plain[n], {1e-10, 1e-10})) << n;
    }
  }
  const auto net = net_of(100, 5, 30, 2, 7, torch::kFloat32);
  const auto found = results(masked_mlp, net),
             plain = results(masked_mlp_reference, net);
  for (size_t n = 0; n < plain.size(); ++n) {
    EXPECT_TRUE(near(found[n], plain[n], {1e-4, 1e-4})) << n;
  }
}

// In float32 as on the CPU in float64, few rows and so many that a block takes
// several tiles.
TEST(KernelsMaskedMlp, OnEveryDeviceIsThatOfPlainOperations) {
  for (const auto& net :
       {net_of(1, 1, 1, 1, 1), net_of(7, 3, 17, 2, 5), net_of(500, 2, 64, 2, 4),
        net_of(33, 40, 256, 3, 130), net_of(5003, 9, 8, 2, 46)}) {
    auto scaled = net;
    for (size_t n = 0; n < net.layers.size(); n += 3) {
      scaled.layers[n] =
          net.layers[n] / std::sqrt(static_cast<double>(net.layers[n].size(1)));
    }
    const auto plain = results(masked_mlp_reference, scaled);
    for (const auto& device : testing::devices()) {
      auto here = scaled;
      for (auto* one : {&here.x, &here.cotangent}) {
        *one = one->to(device, torch::kFloat32);
      }
      for (auto& one : here.layers) one = one.to(device, torch::kFloat32);
      ASSERT_TRUE(has_masked_mlp(here.x, here.layers));
      const auto found = results(masked_mlp, here),
                 again = results(masked_mlp, here);
      for (size_t n = 0; n < plain.size(); ++n) {
        const double size = plain[n].abs().max().item<double>();
        EXPECT_TRUE(near(found[n].cpu().to(torch::kFloat64), plain[n],
                         {2e-5, 2e-5 * (1 + size)}))
            << n << " of " << net.x.size(0) << " rows on " << device;
        EXPECT_TRUE(torch::equal(found[n], again[n])) << n << " on " << device;
      }
    }
  }
}

TEST(KernelsMaskedMlp, FarNumbersAreThoseOfTheLimit) {
  auto net = net_of(2, 1, 1, 1, 1);
  net.x = torch::tensor({{-800.0}, {800.0}}, torch::kFloat64);
  for (auto& one : net.layers) one = torch::ones_like(one);
  const auto y = masked_mlp(net.x, net.layers);
  EXPECT_NEAR(y[0].item<double>(), 1, 1e-9);
  EXPECT_NEAR(y[1].item<double>(), 802, 1e-9);
}

TEST(KernelsMaskedMlp, RepeatsItsBitsWithAnyNumberOfThreads) {
  const auto net = net_of(500, 4, 32, 2, 8, torch::kFloat32);
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  const auto alone = results(masked_mlp, net);
  at::set_num_threads(threads);
  const auto together = results(masked_mlp, net);
  for (size_t n = 0; n < alone.size(); ++n) {
    EXPECT_TRUE(torch::equal(alone[n], together[n])) << n;
  }
}

TEST(KernelsMaskedMlp, WideLayersAreLeftToTheLibrary) {
  const auto net = net_of(3, 2, 300, 1, 2);
  EXPECT_FALSE(has_masked_mlp(net.x, net.layers));
  EXPECT_TRUE(torch::equal(masked_mlp(net.x, net.layers),
                           masked_mlp_reference(net.x, net.layers)));
}

}  // namespace
}  // namespace propagator::kernels
