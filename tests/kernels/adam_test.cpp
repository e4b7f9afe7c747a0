#include "propagator/kernels/adam.h"

#include "testing.h"

namespace propagator::kernels {
namespace {

using propagator::testing::kFloat32;
using propagator::testing::kFloat64;
using propagator::testing::near;
using propagator::testing::random;

const AdamStep kStep{.lr = 0.01,
                     .beta1 = 0.9,
                     .beta2 = 0.99,
                     .eps = 1e-8,
                     .weight_decay = 0.1,
                     .correction1 = 0.1,
                     .correction2 = 0.01,
                     .grad_scale = 0.5};

TEST(KernelsAdam, OneStepByHand) {
  // With zero moments and full correction the first step is lr · sign(g).
  auto w = torch::tensor({1.0, -2.0}, torch::kFloat64);
  auto m = torch::zeros_like(w), v = torch::zeros_like(w);
  AdamStep step = kStep;
  step.weight_decay = 0;
  step.eps = 0;
  adam(w, torch::tensor({3.0, -0.2}, torch::kFloat64), m, v, step);
  EXPECT_TRUE(near(w, torch::tensor({0.99, -1.99}, torch::kFloat64), kFloat64));
  EXPECT_TRUE(near(m, torch::tensor({0.15, -0.01}, torch::kFloat64), kFloat64));
  EXPECT_TRUE(
      near(v, torch::tensor({0.0225, 1e-4}, torch::kFloat64), kFloat64));
}

TEST(KernelsAdam, DecayIsDecoupledFromTheGradient) {
  auto w = torch::tensor({2.0}, torch::kFloat64);
  auto m = torch::zeros_like(w), v = torch::zeros_like(w);
  adam(w, torch::zeros({1}, torch::kFloat64), m, v, kStep);
  EXPECT_DOUBLE_EQ(w.item<double>(), 2.0 * (1 - 0.01 * 0.1));
}

class KernelsAdamTypes : public ::testing::TestWithParam<torch::ScalarType> {};

TEST_P(KernelsAdamTypes, EqualsReferenceOverSeveralSteps) {
  const auto type = GetParam();
  auto w = random({100'003}, "w").to(type);  // not a multiple of any width
  auto m = torch::zeros_like(w), v = torch::zeros_like(w);
  auto w2 = w.clone(), m2 = m.clone(), v2 = v.clone();
  for (int n = 0; n < 3; ++n) {
    const auto g = random({100'003}, fmt::format("g{}", n)).to(type);
    adam(w, g, m, v, kStep);
    adam_reference(w2, g, m2, v2, kStep);
  }
  const auto tolerance = type == torch::kFloat64 ? kFloat64 : kFloat32;
  EXPECT_TRUE(near(w, w2, tolerance));
  EXPECT_TRUE(near(m, m2, tolerance));
  EXPECT_TRUE(near(v, v2, tolerance));
}

// With lr, corrections and scale on the device; on CUDA this is the kernel.
TEST_P(KernelsAdamTypes, OnTheDeviceEqualsReference) {
  const auto type = GetParam();
  for (const auto& device : propagator::testing::devices()) {
    const auto there = torch::TensorOptions(type).device(device);
    auto w = random({100'003}, "w").to(there);
    auto m = torch::zeros_like(w), v = torch::zeros_like(w);
    auto w2 = w.cpu(), m2 = m.cpu(), v2 = v.cpu();
    const auto varying = torch::tensor(
        {kStep.lr, kStep.correction1, kStep.correction2}, torch::kFloat64);
    // Long enough to be cut: to the length that kStep's factor leaves of it.
    const double length =
        random({100'003}, "g0").to(type).norm().item<double>();
    const GradientScale scale{2, kStep.grad_scale * length};
    for (int n = 0; n < 3; ++n) {
      const auto g = random({100'003}, "g0").to(type);
      const auto norm = adam_on_device(w, g.to(device), m, v, kStep,
                                       varying.to(device), scale);
      EXPECT_NEAR(norm.item<double>(), 2 * length, 1e-5 * length);
      adam_reference(w2, g, m2, v2, kStep);
    }
    const auto tolerance = type == torch::kFloat64 ? kFloat64 : kFloat32;
    EXPECT_TRUE(near(w.cpu(), w2, tolerance)) << device;
    EXPECT_TRUE(near(m.cpu(), m2, tolerance)) << device;
    EXPECT_TRUE(near(v.cpu(), v2, tolerance)) << device;
  }
}

INSTANTIATE_TEST_SUITE_P(KernelsAdam, KernelsAdamTypes,
                         ::testing::Values(torch::kFloat32, torch::kFloat64));

}  // namespace
}  // namespace propagator::kernels
