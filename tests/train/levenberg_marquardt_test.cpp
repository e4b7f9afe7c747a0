#include "propagator/train/levenberg_marquardt.h"

#include <torch/autograd.h>
#include <torch/utils.h>

#include <cmath>

#include "propagator/core/error.h"
#include "propagator/data/safetensors.h"
#include "testing.h"
#include "train/lbfgs_problem.h"

namespace propagator::train {
namespace {

using lbfgs_problems::far_start;
using lbfgs_problems::Point;
using propagator::testing::near;
using propagator::testing::random;

// Residuals of parameters x, with the Jacobian row by row from autograd.
struct SquaresProblem {
  SquaresProblem(lbfgs_problems::Function residuals, const torch::Tensor& start)
      : f(std::move(residuals)), module(start), flat(module) {}

  LeastSquares operator()(bool with_jacobian) {
    const torch::AutoGradMode mode(with_jacobian);
    const auto r = f(module.x);
    if (!with_jacobian) return {r};
    std::vector<torch::Tensor> columns;
    for (int64_t n = 0; n < r.numel(); ++n) {
      columns.push_back(torch::autograd::grad({r[n]}, {module.x}, {}, true)[0]);
    }
    return {r.detach(), torch::stack(columns, 1)};
  }
  LevenbergMarquardt::Residuals residuals() {
    return [this](bool with_jacobian) { return (*this)(with_jacobian); };
  }

  lbfgs_problems::Function f;
  Point module;
  FlatParameters flat;
};

torch::Tensor rosenbrock_residuals(const torch::Tensor& x) {
  const auto a = x.slice(0, 0, -1), b = x.slice(0, 1);
  return torch::cat({10 * (b - a * a), 1 - a});
}

TEST(TrainLevenbergMarquardt, StepSolvesTheDampedEquations) {
  // More residuals than parameters, and fewer; the least of a quadratic is
  // where its gradient vanishes.
  for (const int64_t residuals : {30, 5}) {
    const auto jacobian = random({12, residuals}, "J");
    const auto r = random({residuals}, "r");
    const DampedLeastSquares problem(jacobian, r);
    EXPECT_TRUE(near(problem.gradient(), jacobian.mv(r), {1e-13, 1e-13}));
    EXPECT_NEAR(problem.largest_diagonal(),
                jacobian.mm(jacobian.t()).diagonal().max().item<double>(),
                1e-12);
    for (const double damping : {1e-6, 0.1, 1e3}) {
      const auto delta = problem.solve(damping);
      const auto left =
          jacobian.mv(r + jacobian.t().mv(delta)) + damping * delta;
      EXPECT_LE(
          left.norm().item<double>(),
          1e-13 * jacobian.norm().item<double>() * r.norm().item<double>());
    }
  }
  EXPECT_FALSE(DampedLeastSquares(-torch::zeros({3, 4}, torch::kFloat64),
                                  random({4}, "r"))
                   .solve(0)
                   .defined());
}

// Also where |r|² and |r + J δ|² have all digits in common.
TEST(TrainLevenbergMarquardt, WhatAStepIsForetoldToBeWorthIsRight) {
  const auto jacobian = random({4, 30}, "J");
  const auto r = random({30}, "r");
  for (const double damping : {1e-6, 0.1, 1e3}) {
    const DampedLeastSquares problem(jacobian, r);
    const auto delta = problem.solve(damping);
    const double expected =
        (r.square().sum() - (r + jacobian.t().mv(delta)).square().sum())
            .item<double>();
    EXPECT_NEAR(problem.foretold(delta, damping), expected, 1e-12);
  }
  // Most of it no δ changes.
  const auto ortho = std::get<0>(torch::linalg_qr(jacobian.t()));
  auto outside = r - ortho.mv(ortho.t().mv(r));
  outside = outside - ortho.mv(ortho.t().mv(outside));
  const auto within = 1e-11 * ortho.sum(1);
  const DampedLeastSquares hard(jacobian, outside + within);
  const double worth = hard.foretold(hard.solve(1e-12), 1e-12);
  const double expected = within.square().sum().item<double>();
  EXPECT_NEAR(worth, expected, 1e-2 * expected);
}

TEST(TrainLevenbergMarquardt, ReachesZeroResidualsAndNeverRises) {
  for (const int64_t n : {2, 12}) {
    SquaresProblem problem(rosenbrock_residuals, far_start(n));
    LevenbergMarquardt method({}, problem.flat);
    double before = std::numeric_limits<double>::infinity();
    DescentOutcome outcome;
    for (int k = 0; k < 80 && outcome.stop == DescentStop::kNone; ++k) {
      outcome = method.step(problem.residuals());
      EXPECT_LE(outcome.loss, before);
      before = outcome.loss;
      EXPECT_NEAR(problem(false).residuals.square().sum().item<double>(),
                  outcome.loss, 1e-14 * outcome.loss);
    }
    EXPECT_LE(outcome.loss, 1e-24);
    EXPECT_TRUE(near(problem.flat.values(), torch::ones({n}), {0, 1e-10}));
  }
}

TEST(TrainLevenbergMarquardt, RejectsWhatDoesNotLowerTheLoss) {
  SquaresProblem problem(
      [](const torch::Tensor& x) { return torch::atan(30 * x); },
      torch::full({3}, 2.0, torch::kFloat64));
  LevenbergMarquardtOptions options;
  options.damping = 1e-15;  // a whole Gauss-Newton step goes much too far
  LevenbergMarquardt method(options, problem.flat);
  const double before = problem(false).residuals.square().sum().item<double>();
  const auto outcome = method.step(problem.residuals());
  EXPECT_LE(outcome.loss, before);
  // A Jacobian of the wrong sign leads nowhere: the parameters stay.
  const auto start = problem.flat.values().clone();
  const auto wrong = [&](bool with_jacobian) {
    auto all = problem(with_jacobian);
    if (with_jacobian) all.jacobian = -all.jacobian;
    return all;
  };
  LevenbergMarquardt lost({}, problem.flat);
  lost.step(wrong);
  const double tried = lost.damping();
  lost.failures().expect_new_cases();
  lost.step(wrong);  // from where the first of them began
  EXPECT_EQ(lost.damping(), tried);
  lost.step(wrong);  // on from there, on the same points
  EXPECT_GT(lost.damping(), tried);
  EXPECT_TRUE(torch::equal(problem.flat.values(), start));
  EXPECT_EQ(lost.stop(), DescentStop::kLineSearch);
  EXPECT_EQ(lost.step(problem.residuals()).evaluations, 0);
}

TEST(TrainLevenbergMarquardt, StepsThatFailOnOtherPointsEachTimeGoOn) {
  FailedSteps on_the_same, on_others;
  int same = 0, others = 0;
  for (; !on_the_same.are_too_many(); ++same) on_the_same.note(true);
  for (; !on_others.are_too_many() && others < 100; ++others) {
    on_others.expect_new_cases();
    on_others.note(true);
  }
  EXPECT_EQ(same, 3);
  EXPECT_GT(others, 6);
  on_the_same.note(false);
  EXPECT_EQ(on_the_same.count(), 0);
  EXPECT_FALSE(on_the_same.are_too_many());
}

TEST(TrainLevenbergMarquardt, RestoredStateGoesOnToTheSameBits) {
  SquaresProblem whole(rosenbrock_residuals, far_start(8));
  SquaresProblem part(rosenbrock_residuals, far_start(8));
  LevenbergMarquardt uninterrupted({}, whole.flat), before({}, part.flat);
  for (int n = 0; n < 9; ++n) uninterrupted.step(whole.residuals());
  for (int n = 0; n < 4; ++n) before.step(part.residuals());
  SquaresProblem rest(rosenbrock_residuals, part.flat.values());
  LevenbergMarquardt after({}, rest.flat);
  after.restore(
      data::from_safetensors(data::to_safetensors({before.state(), {}}), "s")
          .tensors);
  for (int n = 0; n < 5; ++n) after.step(rest.residuals());
  EXPECT_TRUE(torch::equal(rest.flat.values(), whole.flat.values()));
  EXPECT_EQ(after.damping(), uninterrupted.damping());
}

TEST(TrainLevenbergMarquardt, WhatDoesNotFitIsRefused) {
  SquaresProblem problem(rosenbrock_residuals, far_start(9));
  LevenbergMarquardtOptions few;
  few.max_parameters = 8;
  EXPECT_NE(::propagator::testing::thrown<ConfigError>([&] {
              LevenbergMarquardt(few, problem.flat);
            }).find("at most 8 parameters"),
            std::string::npos);
  LevenbergMarquardt method({}, problem.flat);
  method.step(problem.residuals());
  const auto good = method.state();
  for (const auto& [name, value] : good) {
    auto bad = good;
    bad.erase(name);
    if (name == "before_failure") continue;
    EXPECT_THROW(method.restore(bad), DataError) << name;
  }
  auto bad = good;
  bad["counters"] = torch::tensor({1, 1, 0, 77}, torch::kInt64);
  EXPECT_THROW(method.restore(bad), DataError);
  const auto broken = [&](bool with_jacobian) {
    auto all = problem(with_jacobian);
    all.residuals = all.residuals * NAN;
    return all;
  };
  EXPECT_EQ(method.step(broken).stop, DescentStop::kNotFinite);
}

}  // namespace
}  // namespace propagator::train
