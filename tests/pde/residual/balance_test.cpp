#include "propagator/pde/residual/balance.h"

#include "testing.h"

namespace propagator::pde {
namespace {

using torch::Tensor;

// Two linear terms: residuals A θ - b and s (A θ - b), whose gradients and
// kernels are known.
struct Linear {
  Tensor theta =
      torch::tensor({0.3, -0.7, 1.1}, torch::kFloat64).set_requires_grad(true);
  Tensor a = torch::linspace(-1, 2, 12, torch::kFloat64).view({4, 3});
  Tensor b = torch::linspace(0, 1, 4, torch::kFloat64);

  std::vector<double> weights(Balance balance, double scale) {
    const TermResiduals first = [this] {
      return std::vector<Tensor>{a.matmul(theta) - b};
    };
    const TermResiduals second = [this, scale] {
      return std::vector<Tensor>{scale * (a.matmul(theta) - b)};
    };
    return balanced_weights(balance, {first, second}, {theta}, 2, 7, 0);
  }
};

TEST(PdeBalance, MeanSquaresOfATermAddUp) {
  MeanSquares mean_squares;
  const auto squares = [&](const Tensor& x) {
    return mean_squares({{x.slice(0, 0, 2)}, {x[2], 2 * x.select(1, 0)}});
  };
  const auto x = testing::random({3, 4}, "balance/residuals");
  EXPECT_TRUE(testing::near(
      squares(x),
      torch::stack({x.slice(0, 0, 2).square().mean(),
                    x[2].square().mean() + 4 * x.select(1, 0).square().mean()}),
      testing::kFloat64));
  EXPECT_TRUE(testing::gradient_is_right(
      [&](const Tensor& y) { return squares(y).square().sum(); }, x));
}

// A search along a line sees what a float32 sum would round away.
TEST(PdeBalance, MeanSquaresOfFloatsShowASmallChange) {
  MeanSquares mean_squares;
  auto x = torch::full({10000}, 0.25, torch::kFloat32);
  const double before = mean_squares({{x}}).item<double>();
  EXPECT_NEAR(before, 0.0625, 1e-13);
  x[7] += 1e-5;
  const double after = x[7].item<double>();
  EXPECT_NEAR(mean_squares({{x}}).item<double>() - before,
              (after * after - 0.0625) / 10000, 1e-13);
  x.set_requires_grad(true);
  mean_squares({{x}}).sum().backward();
  EXPECT_EQ(x.grad().scalar_type(), torch::kFloat32);
  EXPECT_NEAR(x.grad()[0].item<double>(), 2 * 0.25 / 10000, 1e-10);
}

TEST(PdeBalance, GradientsBecomeEquallyLong) {
  // The loss has s² and so has its gradient.
  const auto weights = Linear().weights(Balance::kGradientNorm, 3);
  EXPECT_DOUBLE_EQ(weights[0], 2);
  EXPECT_NEAR(weights[1], 2.0 / 9, 1e-12);
}

TEST(PdeBalance, KernelIsThatOfTheResidual) {
  Linear problem;
  // Signs are random: the estimate of |A|² / n has an error, and is unbiased.
  double sum = 0;
  constexpr int kDraws = 400;
  for (int n = 0; n < kDraws; ++n) {
    const TermResiduals unit = [&] {
      // Its kernel is the identity, exactly: signs cancel nothing.
      return std::vector<Tensor>{problem.theta * 1.0};
    };
    const TermResiduals rows = [&] {
      return std::vector<Tensor>{problem.a.matmul(problem.theta)};
    };
    const auto weights =
        balanced_weights(Balance::kNtk, {unit, rows}, {problem.theta}, 1, 7, n);
    sum += 1 / weights[1];
  }
  const double diagonal = problem.a.square().sum(1).mean().item<double>();
  EXPECT_NEAR(sum / kDraws / diagonal, 1, 0.1);
}

TEST(PdeBalance, KernelDoesNotDependOnHowLargeTheResidualIs) {
  Linear problem;
  const auto near = problem.weights(Balance::kNtk, 3);
  problem.b = problem.b + 100;
  const auto far = problem.weights(Balance::kNtk, 3);
  EXPECT_NEAR(near[1], far[1], 1e-9);
}

TEST(PdeBalance, TermThatCannotBeLearnedHasTheLargestWeight) {
  Linear problem;
  const TermResiduals first = [&] {
    return std::vector<Tensor>{problem.a.matmul(problem.theta)};
  };
  const TermResiduals constant = [&] {
    return std::vector<Tensor>{torch::ones({3}, torch::kFloat64)};
  };
  for (const auto balance : {Balance::kGradientNorm, Balance::kNtk}) {
    const auto weights =
        balanced_weights(balance, {first, constant}, {problem.theta}, 2, 7, 0);
    EXPECT_EQ(weights[1], 2 * kLargestBalanced);
  }
}

}  // namespace
}  // namespace propagator::pde
