#include "propagator/kernels/plate_loss.h"

#include <ATen/Parallel.h>
#include <torch/autograd.h>

#include "testing.h"

namespace propagator::kernels {
namespace {

using propagator::testing::gradient_is_right;
using propagator::testing::kFloat64;
using propagator::testing::near;
using propagator::testing::random;
using propagator::testing::Tolerance;

// 41 frames cross the kernel's chunks of 32.
PlateLossInputs make_inputs(torch::ScalarType type, int64_t frames = 41) {
  return {random({3, frames, 6, 5}, "prediction").to(type),
          random({3, frames, 6, 5}, "truth").to(type),
          torch::tensor({0.7, 1.1, 2.0}, type),
          torch::tensor({0.1, 0.3, 0.2}, type),
          torch::tensor({0.2, 0.1, 0.4}, type),
          4};
}

const PlateLossWeights kWeights{1.0, 0.5, 0.25, 0.125};

TEST(KernelsPlateLoss, TermsByHand) {
  // A constant error of 1/2: every mean of squares is 1/4, four edges make 1.
  const auto truth = torch::zeros({1, 3, 4, 4}, torch::kFloat64);
  const auto one = torch::ones({1}, torch::kFloat64);
  const auto loss =
      plate_loss({truth + 0.5, truth, one, one, one, 2}, kWeights);
  EXPECT_TRUE(near(loss.terms,
                   torch::tensor({0.25, 0.0, 1.0, 0.25}, torch::kFloat64),
                   kFloat64));
  EXPECT_DOUBLE_EQ(loss.total.item<double>(), 0.25 + 0.25 + 0.125 * 0.25);
}

TEST(KernelsPlateLoss, ResidualByHand) {
  // T = t + x² + 3 y² on unit spacing: T_t = 1, δxx = 2, δyy = 6.
  const auto t = torch::arange(3, torch::kFloat64).view({1, 3, 1, 1});
  const auto y = torch::arange(5, torch::kFloat64).view({1, 1, 5, 1});
  const auto x = torch::arange(4, torch::kFloat64).view({1, 1, 1, 4});
  const auto field = t + x * x + 3 * y * y;
  const auto number = [](double value) {
    return torch::tensor({value}, torch::kFloat64);
  };
  const auto loss = plate_loss(
      {field, field, number(10), number(0.5), number(0.25), 1}, kWeights);
  // 10·1 - 0.5·2 - 0.25·6 = 7.5
  EXPECT_NEAR(loss.terms[1].item<double>(), 7.5 * 7.5, 1e-12);
  EXPECT_EQ(loss.terms[0].item<double>(), 0);
}

TEST(KernelsPlateLoss, EqualsReferenceInValueAndGradient) {
  for (const auto& device : propagator::testing::devices()) {
    for (const auto type : {torch::kFloat64, torch::kFloat32}) {
      auto in = make_inputs(type);
      for (auto* part : {&in.prediction, &in.truth, &in.rate, &in.kx, &in.ky}) {
        *part = part->to(device);
      }
      in.prediction.set_requires_grad(true);
      const auto fused = plate_loss(in, kWeights);
      const auto plain = plate_loss_reference(in, kWeights);
      const Tolerance tolerance =
          type == torch::kFloat64 ? kFloat64 : Tolerance{1e-4, 1e-6};
      EXPECT_TRUE(near(fused.terms, plain.terms, tolerance)) << device;
      EXPECT_TRUE(near(fused.total, plain.total, tolerance)) << device;
      const auto g1 = torch::autograd::grad({3 * fused.total}, {in.prediction});
      const auto g2 = torch::autograd::grad({3 * plain.total}, {in.prediction});
      EXPECT_TRUE(near(g1[0], g2[0], tolerance)) << device;
    }
  }
}

TEST(KernelsPlateLoss, GradientAgainstDifferences) {
  auto in = make_inputs(torch::kFloat64, 5);
  const auto f = [&](const torch::Tensor& prediction) {
    in.prediction = prediction;
    return plate_loss(in, kWeights).total;
  };
  EXPECT_TRUE(gradient_is_right(f, in.prediction.clone()));
}

TEST(KernelsPlateLoss, ThreadsDoNotChangeTheBits) {
  const auto in = make_inputs(torch::kFloat32);
  const int threads = at::get_num_threads();
  const auto many = plate_loss(in, kWeights);
  at::set_num_threads(1);
  const auto one = plate_loss(in, kWeights);
  at::set_num_threads(threads);
  EXPECT_TRUE(torch::equal(many.terms, one.terms));
}

TEST(KernelsPlateLoss, PublishedNormalisationIsNearlyConstant) {
  // Finding 3 on the heat-plate paper: any prediction scores about one.
  auto in = make_inputs(torch::kFloat64);
  const double first =
      plate_loss_reference(in, kWeights, true).terms[1].item<double>();
  in.prediction = 100 * in.prediction;
  const double second =
      plate_loss_reference(in, kWeights, true).terms[1].item<double>();
  EXPECT_NEAR(first, 1, 0.01);
  EXPECT_NEAR(second, 1, 0.01);
}

}  // namespace
}  // namespace propagator::kernels
