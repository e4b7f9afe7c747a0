#include "propagator/kernels/jet/jet_scan.h"

#include <torch/autograd.h>

#include "propagator/nn/selective_scan.h"
#include "testing.h"

namespace propagator::kernels {
namespace {

using autodiff::Jet;
using autodiff::JetLayout;
using torch::Tensor;

// Channels that make no whole vector, or more than a warp; one token; as many
// tokens and directions as a kernel takes.
struct ScanCase {
  int64_t tokens, inner, states;
  std::vector<int64_t> orders;  // of the directions
  std::vector<int> signs = {};  // of a sum over directions
};

class KernelsJetScan : public ::testing::TestWithParam<ScanCase> {};

// Value and gradients against the plain operations in float64, on every
// device.
TEST_P(KernelsJetScan, AgreesWithReference) {
  const ScanCase& k = GetParam();
  const auto layout = k.signs.empty() ? JetLayout(k.orders)
                                      : JetLayout::summed(k.orders, k.signs);
  constexpr int64_t kWindows = 21;
  const auto tokens = [&](int64_t channels, const char* name) {
    return testing::random({layout.rows(), kWindows, k.tokens, channels}, name);
  };
  auto delta = tokens(k.inner, "delta");
  delta[0] += 1.2;  // steps are positive
  const std::vector<Tensor> inputs{
      tokens(k.inner, "x"),
      delta,
      -(testing::random({k.inner, k.states}, "a") + 1.5),
      tokens(k.states, "b"),
      tokens(k.states, "c"),
      testing::random({k.inner}, "d")};
  const auto weights = tokens(k.inner, "weights");
  const auto run = [&](auto&& scan, torch::Device device,
                       torch::ScalarType type) {
    std::vector<Tensor> in;
    for (const auto& input : inputs) {
      in.push_back(input.to(device, type).clone().requires_grad_());
    }
    const auto y = scan(in);
    auto all = torch::autograd::grad({(y * weights.to(device, type)).sum()}, in,
                                     {}, {}, {}, /*allow_unused=*/true);
    // One token has nothing that decays, so plain operations do not see a.
    if (!all[2].defined()) all[2] = torch::zeros_like(in[2]);
    all.push_back(y);
    return all;
  };
  const auto plain = run(
      [&](const std::vector<Tensor>& in) {
        const auto jet = [&](size_t n) { return Jet(in[n], layout); };
        return nn::selective_scan_reference(jet(0), jet(1), in[2], jet(3),
                                            jet(4), in[5])
            .rows();
      },
      torch::kCPU, torch::kFloat64);
  const auto ours = [&](torch::Device device, torch::ScalarType type) {
    return run(
        [&](const std::vector<Tensor>& in) {
          EXPECT_TRUE(has_jet_scan(in[0], layout.orders()));
          return jet_scan({in[0], in[1], in[2], in[3], in[4], in[5]},
                          layout.orders());
        },
        device, type);
  };
  testing::expect_near_everywhere(ours, plain, {2e-5, 5e-5});
}

INSTANTIATE_TEST_SUITE_P(
    Kernels, KernelsJetScan,
    ::testing::Values(ScanCase{5, 32, 8, {}}, ScanCase{5, 32, 8, {1}},
                      ScanCase{5, 32, 8, {2, 1}}, ScanCase{4, 7, 3, {2, 2}},
                      ScanCase{5, 32, 8, {2, 2}, {1, -1}},
                      ScanCase{4, 35, 2, {2, 2, 1}, {-1, 1}},
                      ScanCase{1, 3, 1, {2}}, ScanCase{16, 5, 4, {2, 2, 2}},
                      ScanCase{3, 9, 2, {2, 2, 2}, {1, -1, 1}}));

TEST(KernelsJetScanLimits, LeavesLongWindowsAndManyDirections) {
  const auto x = torch::zeros({5, 1, 17, 2});
  EXPECT_FALSE(has_jet_scan(x, {.first = 2, .second = 2}));
  EXPECT_TRUE(has_jet_scan(x.narrow(2, 0, 16), {.first = 2, .second = 2}));
  EXPECT_FALSE(has_jet_scan(x.narrow(2, 0, 16), {.first = 4}));
}

}  // namespace
}  // namespace propagator::kernels
