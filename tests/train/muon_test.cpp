#include "propagator/train/muon.h"

#include <torch/cuda.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>
#include <torch/utils.h>

#include <cmath>

#include "propagator/train/optimizer.h"
#include "testing.h"

namespace propagator::train {
namespace {

using propagator::testing::kFloat64;
using propagator::testing::near;
using propagator::testing::random;

double of_one_singular_value(double s) {
  for (int n = 0; n < 5; ++n) {
    s = 3.4445 * s - 4.775 * std::pow(s, 3) + 2.0315 * std::pow(s, 5);
  }
  return s;
}

TEST(TrainMuon, SingularValuesGoThroughThePolynomial) {
  const auto x = random({3, 4, 7}, "x");
  const auto [u, s, v] = torch::linalg_svd(x, /*full_matrices=*/false);
  const auto share = s / s.square().sum(-1, true).sqrt();
  auto expected = share.clone();
  for (auto *at = expected.data_ptr<double>(), *end = at + expected.numel();
       at != end; ++at) {
    *at = of_one_singular_value(*at);
  }
  EXPECT_TRUE(
      near(orthogonalised(x), u.matmul(expected.unsqueeze(-1) * v), kFloat64));
}

TEST(TrainMuon, DirectionsOfASquareMatrixBecomeAlike) {
  const auto s =
      torch::linalg_svdvals(orthogonalised(random({5, 16, 32}, "x")));
  EXPECT_GT(s.min().item<double>(), 0.65);
  EXPECT_LT(s.max().item<double>(), 1.25);
}

TEST(TrainMuon, TallIsWideTurned) {
  const auto x = random({2, 9, 4}, "x");
  EXPECT_TRUE(near(orthogonalised(x),
                   orthogonalised(x.transpose(1, 2)).transpose(1, 2),
                   kFloat64));
}

TEST(TrainMuon, ScaleDoesNotMatterAndZeroStaysZero) {
  const auto x = random({2, 3, 4}, "x").to(torch::kFloat32);
  const auto expected = orthogonalised(x);
  // The squares of what a dying gradient leaves are below the smallest number.
  for (const double scale : {1e6, 1e-6, 1e-19, 1e-22, 3e-23, 1e-30}) {
    EXPECT_TRUE(near(orthogonalised(scale * x), expected, {1e-4, 1e-4}))
        << scale;
  }
  EXPECT_EQ(orthogonalised(torch::zeros_like(x)).abs().max().item<double>(), 0);
}

TEST(TrainMuon, TwoStepsOfADiagonalByHand) {
  auto w = torch::eye(2, torch::kFloat64).unsqueeze(0).clone();
  auto m = torch::zeros_like(w);
  const auto lr = torch::tensor(0.1, torch::kFloat64);
  double at[2] = {1, 1}, moment[2] = {0, 0};
  for (const double slope : {2.0, -0.5}) {
    const double g[2] = {slope, 1};
    muon_step(
        w,
        torch::diag(torch::tensor({slope, 1.0}, torch::kFloat64)).unsqueeze(0),
        m, lr, 0.9);
    double ahead[2];
    for (int i = 0; i < 2; ++i) {
      moment[i] = 0.9 * moment[i] + 0.1 * g[i];
      ahead[i] = 0.9 * moment[i] + 0.1 * g[i];
    }
    const double length = std::hypot(ahead[0], ahead[1]);
    for (int i = 0; i < 2; ++i) {
      at[i] -=
          0.1 * 0.2 * std::sqrt(2.0) * of_one_singular_value(ahead[i] / length);
      EXPECT_NEAR(w[0][i][i].item<double>(), at[i], 1e-12);
    }
  }
}

TEST(TrainMuon, MatricesOfOneShapeLieTogetherAndTheRestComesFirst) {
  torch::nn::Sequential module(torch::nn::Linear(3, 2), torch::nn::Linear(2, 5),
                               torch::nn::Linear(3, 2));
  module->to(torch::kFloat64);
  std::vector<torch::Tensor> before;
  for (const auto& p : module->parameters()) before.push_back(p.clone());
  FlatParameters flat(*module, {}, FlatParameters::Order::kMatricesLast);
  ASSERT_EQ(flat.stacks().size(), 2u);
  EXPECT_EQ(flat.matrices_begin(), 16);  // biases of 2, 5 and 2, each at 4 n
  const auto pair = matrices_of(flat.values(), flat.stacks()[0]);
  ASSERT_EQ(pair.sizes(), (std::vector<int64_t>{2, 2, 3}));
  EXPECT_TRUE(torch::equal(pair[0], before[0]));
  EXPECT_TRUE(torch::equal(pair[1], before[4]));
  const auto single = matrices_of(flat.values(), flat.stacks()[1]);
  ASSERT_EQ(single.sizes(), (std::vector<int64_t>{1, 5, 2}));
  EXPECT_TRUE(torch::equal(single[0], before[2]));
}

TEST(TrainMuon, BiasesMoveAsAdamMovesThem) {
  const auto after = [](OptimizerKind kind) {
    torch::nn::Linear module(3, 2);
    module->to(torch::kFloat64);
    const torch::NoGradGuard no_grad;
    for (auto& p : module->parameters()) p.fill_(0.5);
    FlatParameters flat(*module, {}, Optimizer::order_for(kind));
    Optimizer optimizer({.kind = kind}, flat);
    module->weight.mutable_grad().copy_(random({2, 3}, "of weights"));
    module->bias.mutable_grad().copy_(random({2}, "of biases"));
    optimizer.begin_step(0.1);
    optimizer.apply({.share = 0.5, .clip = 1e-3});
    return std::pair{module->weight.detach(), module->bias.detach()};
  };
  const auto [muon_weight, muon_bias] = after(OptimizerKind::kMuon);
  const auto [adam_weight, adam_bias] = after(OptimizerKind::kAdam);
  EXPECT_TRUE(near(muon_bias, adam_bias, kFloat64));
  EXPECT_FALSE(near(muon_weight, adam_weight, {0, 1e-3}));
}

TEST(TrainMuon, DevicesAgree) {
  if (!torch::cuda::is_available()) GTEST_SKIP() << "no CUDA device";
  const auto x = random({3, 40, 24}, "x").to(torch::kFloat32);
  const auto there = orthogonalised(x.cuda());
  EXPECT_EQ(there.scalar_type(), torch::kFloat32);
  // bfloat16 has eight bits, and five steps add up their rounding.
  EXPECT_TRUE(near(there.cpu(), orthogonalised(x), {0, 0.05}));
}

}  // namespace
}  // namespace propagator::train
