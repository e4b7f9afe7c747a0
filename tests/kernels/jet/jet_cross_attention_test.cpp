#include "propagator/kernels/jet/jet_cross_attention.h"

#include <torch/autograd.h>

#include "propagator/nn/cross_attention.h"
#include "testing.h"

namespace propagator::kernels {
namespace {

using autodiff::Jet;
using autodiff::JetLayout;
using torch::Tensor;

struct CrossCase {
  int64_t points, tokens, width, heads;
  std::vector<int64_t> orders;  // of the directions
  std::vector<int> signs = {};  // of a sum over directions
  double strength = 2;          // of the queries' values

  JetLayout layout() const {
    return signs.empty() ? JetLayout(orders) : JetLayout::summed(orders, signs);
  }
};

class KernelsJetCrossAttention : public ::testing::TestWithParam<CrossCase> {};

// Value and gradients against the plain operations in float64, on every
// device.
TEST_P(KernelsJetCrossAttention, AgreesWithReference) {
  const CrossCase& c = GetParam();
  const auto layout = c.layout();
  const std::vector<int64_t> shape{layout.rows(), c.points, c.width};
  const auto q = testing::random(shape, "q") * 2;
  q[0] *= c.strength / 2;
  const auto k = testing::random({c.tokens, c.width}, "k");
  const auto v = testing::random({c.tokens, c.width}, "v");
  const auto weights = testing::random(shape, "weights");
  const auto run = [&](auto&& attend, torch::Device device,
                       torch::ScalarType type) {
    const auto at = [&](const Tensor& x) {
      return x.to(device, type).clone().requires_grad_();
    };
    const std::vector<Tensor> inputs{at(q), at(k), at(v)};
    const auto y =
        attend(Jet(inputs[0], layout), inputs[1], inputs[2], c.heads).rows();
    auto all =
        torch::autograd::grad({(y * weights.to(device, type)).sum()}, inputs);
    all.push_back(y);
    return all;
  };
  const auto plain =
      run(nn::cross_attention_reference, torch::kCPU, torch::kFloat64);
  const auto ours = [&](torch::Device device, torch::ScalarType type) {
    return run(nn::cross_attention, device, type);
  };
  testing::expect_near_everywhere(ours, plain, {5e-5, 5e-5});
}

// What the test above compares is the kernel, not the reference once more; the
// tensor cores want heads of 16 or 32 numbers.
TEST_P(KernelsJetCrossAttention, IsThereInFloat32) {
  const CrossCase& c = GetParam();
  const auto layout = c.layout();
  for (const auto& device : testing::devices()) {
    const auto q = torch::zeros({layout.rows(), c.points, c.width},
                                torch::dtype(torch::kFloat32).device(device));
    const bool fits = device.is_cpu() || c.width / c.heads >= 16;
    EXPECT_EQ(has_jet_cross_attention(q, c.heads, layout.orders()), fits)
        << device;
  }
}

// One token, fewer tokens than a tile has and more, points that fill no tile;
// scores of which all but one are nothing to the softmax.
INSTANTIATE_TEST_SUITE_P(
    Kernels, KernelsJetCrossAttention,
    ::testing::Values(CrossCase{5, 1, 16, 2, {2, 1}},
                      CrossCase{3, 7, 32, 4, {2, 2}},
                      CrossCase{21, 150, 32, 2, {2, 2, 1}, {1, 1}},
                      CrossCase{21, 150, 32, 2, {2, 2}, {1, -1}},
                      CrossCase{70, 67, 32, 1, {2, 2, 1}},
                      CrossCase{9, 130, 32, 2, {2, 2, 1}, {-1, 1}, 30}));

// A head of three numbers is no whole vector; orders that no kernel has are
// answered by plain operations.
TEST(KernelsJetCrossFallback, LeavesTheRestToPlainOperations) {
  const auto narrow = torch::zeros({4, 5, 6});
  const JetOrders orders{.first = 2, .second = 1};
  EXPECT_FALSE(has_jet_cross_attention(narrow, 2, orders));
  const auto layout = JetLayout({2, 1});
  const auto tokens = torch::ones({3, 6});
  const auto y = nn::cross_attention(Jet(narrow, layout), tokens, tokens, 2);
  EXPECT_TRUE(torch::equal(y.value(), torch::ones({5, 6})));
}

}  // namespace
}  // namespace propagator::kernels
