#include "propagator/kernels/jet/jet_wavelet.h"

#include <torch/autograd.h>

#include <cmath>

#include "propagator/kernels/sincos.h"
#include "testing.h"

namespace propagator::kernels {
namespace {

using testing::near;
using torch::Tensor;

class KernelsJetWavelet : public ::testing::TestWithParam<JetOrders> {};

// Value and all gradients against the plain operations, on every device.
TEST_P(KernelsJetWavelet, AgreesWithReference) {
  const auto orders = GetParam();
  const std::vector<int64_t> shape{orders.rows(), 37, 29};
  for (const auto& device : testing::devices()) {
    for (const auto type : {torch::kFloat64, torch::kFloat32}) {
      const auto tolerance =
          type == torch::kFloat64 ? testing::kFloat64 : testing::kFloat32;
      const auto make = [&](torch::IntArrayRef sizes, const char* name) {
        return testing::random(sizes, name).to(device, type);
      };
      std::vector<Tensor> inputs{(make(shape, "rows") * 3).requires_grad_(),
                                 make({1}, "w1").requires_grad_(),
                                 make({1}, "w2").requires_grad_()};
      const auto weights = make(shape, "weights");
      const auto run = [&](auto&& f) {
        const auto y = f(inputs[0], inputs[1], inputs[2], orders);
        auto all = torch::autograd::grad({(y * weights).sum()}, inputs);
        all.push_back(y);
        // Sums over a thousand numbers round more than one of them.
        all[1] = all[1] / 100;
        all[2] = all[2] / 100;
        return all;
      };
      const auto ours = run(jet_wavelet), plain = run(jet_wavelet_reference);
      for (size_t i = 0; i < ours.size(); ++i) {
        EXPECT_TRUE(near(ours[i].cpu(), plain[i].cpu(), tolerance))
            << i << " on " << device;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, KernelsJetWavelet,
                         ::testing::Values(JetOrders{0, 0}, JetOrders{1, 0},
                                           JetOrders{2, 0}, JetOrders{2, 1},
                                           JetOrders{2, 2}, JetOrders{3, 2},
                                           JetOrders{2, 2, true, 0b10},
                                           JetOrders{3, 2, true, 0b01}));

TEST(KernelsJetOrders, ArePackedIntoOneNumber) {
  const JetOrders orders{300, 32, true, 0x80000001};
  const auto again = JetOrders::unpacked(orders.packed());
  EXPECT_EQ(again.first, 300);
  EXPECT_EQ(again.second, 32);
  EXPECT_TRUE(again.summed);
  EXPECT_EQ(again.minus, 0x80000001);
}

TEST(KernelsJetWaveletLimits, SumsThatOverflowAreInfinite) {
  for (const auto& device : testing::devices()) {
    const auto options = torch::TensorOptions(torch::kFloat32).device(device);
    const auto x = torch::full({1, 100, 1}, 1.0, options).requires_grad_();
    const auto w = torch::ones({1}, options).requires_grad_();
    const auto y = jet_wavelet(x, w, w.detach(), JetOrders{0, 0});
    const auto gradient =
        torch::autograd::grad({y}, {w}, {torch::full_like(y, 3e38)});
    EXPECT_TRUE(std::isinf(gradient[0].item<float>())) << device;
  }
}

TEST(KernelsSincos, IsRightToTwoUnits) {
  const auto error = [](double x) {
    const auto in = static_cast<float>(x);
    float s, c;
    sincos(&in, 1, &s, &c);
    return std::max(std::abs(s - std::sin(static_cast<double>(in))),
                    std::abs(c - std::cos(static_cast<double>(in))));
  };
  double worst = 0;
  for (double x = -9000; x < 9000; x += 0.0731) {
    worst = std::max(worst, error(x));
  }
  for (const double large : {1e5, 1e7, -1e10, 3e38}) {
    worst = std::max(worst, error(large));
  }
  EXPECT_LT(worst, 1.5e-7);
}

TEST(KernelsSincos, NanStaysNan) {
  const float in = std::nanf("");
  float s, c;
  sincos(&in, 1, &s, &c);
  EXPECT_TRUE(std::isnan(s) && std::isnan(c));
}

}  // namespace
}  // namespace propagator::kernels
