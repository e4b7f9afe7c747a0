#include "propagator/kernels/jet/jet_attention.h"

#include <torch/autograd.h>

#include "propagator/nn/window_attention.h"
#include "testing.h"

namespace propagator::kernels {
namespace {

using autodiff::Jet;
using autodiff::JetLayout;
using torch::Tensor;

// Heads of 3 channels cannot be read four at a time; 17 tokens have more pairs
// than a block has threads and, in float64, need more than 48 KB.
struct JetCase {
  int64_t tokens, width, heads;
  std::vector<int64_t> orders;  // of the directions
  bool biased;
  std::vector<int> signs = {};  // of a sum over directions
};

class KernelsJetAttention : public ::testing::TestWithParam<JetCase> {};

// Value and gradients against the plain operations in float64, on every
// device.
TEST_P(KernelsJetAttention, AgreesWithReference) {
  const JetCase& c = GetParam();
  const auto layout = c.signs.empty() ? JetLayout(c.orders)
                                      : JetLayout::summed(c.orders, c.signs);
  constexpr int64_t kWindows = 7;
  const std::vector<int64_t> shape{layout.rows(), kWindows, c.tokens, c.width};
  const auto q = testing::random(shape, "q") * 2;
  const auto kv =
      testing::random({layout.rows(), kWindows, c.tokens, 2 * c.width}, "kv");
  const auto bias =
      c.biased
          ? testing::random({kWindows, c.heads, c.tokens, c.tokens}, "bias")
          : Tensor();
  const auto weights = testing::random(shape, "weights");
  const auto run = [&](auto&& attend, torch::Device device,
                       torch::ScalarType type) {
    const auto at = [&](const Tensor& x) { return x.to(device, type); };
    const std::vector<Tensor> inputs{at(q).clone().requires_grad_(),
                                     at(kv).clone().requires_grad_()};
    const auto y = attend(inputs[0], inputs[1], c.biased ? at(bias) : bias);
    auto all = torch::autograd::grad({(y * at(weights)).sum()}, inputs);
    all.push_back(y);
    return all;
  };
  nn::WindowAttention layer(
      nn::WindowAttentionOptions{.width = c.width, .heads = c.heads});
  const auto plain = run(
      [&](const Tensor& query, const Tensor& both, const Tensor& added) {
        return layer->mix(Jet(query, layout), Jet(both, layout), added).rows();
      },
      torch::kCPU, torch::kFloat64);
  const auto ours = [&](torch::Device device, torch::ScalarType type) {
    return run(
        [&](const Tensor& query, const Tensor& both, const Tensor& added) {
          EXPECT_TRUE(has_jet_attention(query, c.heads, layout.orders()));
          return jet_attention(query, both, added, c.heads, layout.orders());
        },
        device, type);
  };
  testing::expect_near_everywhere(ours, plain, {2e-5, 2e-5});
}

INSTANTIATE_TEST_SUITE_P(
    Kernels, KernelsJetAttention,
    ::testing::Values(
        JetCase{5, 32, 2, {}, false}, JetCase{5, 32, 2, {1}, true},
        JetCase{5, 32, 2, {2, 2}, false}, JetCase{5, 32, 2, {2, 2, 1}, true},
        JetCase{1, 8, 1, {2}, false}, JetCase{4, 6, 2, {2, 1}, true},
        JetCase{5, 32, 2, {2, 2}, false, {1, -1}},
        JetCase{4, 6, 2, {2, 2, 1}, true, {-1, 1}},
        JetCase{17, 16, 2, {2}, true}));

}  // namespace
}  // namespace propagator::kernels
