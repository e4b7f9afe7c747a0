#include "propagator/train/lbfgs.h"

#include <cmath>

#include "propagator/core/error.h"
#include "propagator/data/safetensors.h"
#include "testing.h"
#include "train/lbfgs_problem.h"

namespace propagator::train {
namespace {

using propagator::testing::devices;
using propagator::testing::near;
using propagator::testing::random;
using namespace lbfgs_problems;

Function quadratic(int64_t n, double condition) {
  const auto q = std::get<0>(torch::linalg_qr(random({n, n}, "q")));
  const auto values = torch::logspace(0, std::log10(condition), n, 10.0,
                                      torch::TensorOptions(torch::kFloat64));
  const auto hessian = q.matmul(values.unsqueeze(1) * q.t());
  return [=](const torch::Tensor& x) {
    return 0.5 * (x - 1).dot(hessian.matmul(x - 1));
  };
}

TEST(TrainLbfgs, QuadraticInAboutAsManyIterationsAsUnknowns) {
  for (const int64_t n : {1, 2, 5, 10, 30}) {
    Problem problem(quadratic(n, 10), torch::zeros({n}, torch::kFloat64));
    Lbfgs optimizer({}, problem.flat);
    const auto outcome = run(optimizer, problem, 100);
    EXPECT_EQ(outcome.stop, DescentStop::kGradient);
    EXPECT_LE(optimizer.iterations(), n + 15);
    EXPECT_LE(outcome.loss, 1e-18);
    EXPECT_TRUE(near(problem.x(), torch::ones({n}), {0, 2e-9}));
    EXPECT_EQ(problem.evaluate().item<double>(), outcome.loss);
    EXPECT_NEAR(problem.flat.gradients().norm().item<double>(),
                outcome.gradient_norm, 1e-20);
  }
}

TEST(TrainLbfgs, RosenbrockFromTheUsualStart) {
  for (const auto& device : devices()) {
    for (const int64_t n : {2, 20}) {
      Problem problem(rosenbrock, far_start(n).to(device));
      Lbfgs optimizer({}, problem.flat);
      Lbfgs::Outcome outcome;
      for (int k = 0; k < 20; ++k) {
        outcome = optimizer.step(problem.device_closure());
      }
      EXPECT_EQ(outcome.stop, DescentStop::kGradient) << reason(outcome.stop);
      EXPECT_LE(outcome.loss, 1e-16);
      EXPECT_TRUE(near(problem.x(), torch::ones({n}), {0, 1e-8}));
      EXPECT_LE(optimizer.iterations(), n == 2 ? 50 : 150);
      EXPECT_LE(optimizer.evaluations(), 1.5 * optimizer.iterations());
    }
  }
}

TEST(TrainLbfgs, WhatFloat32HasStoppedGoesOnInFloat64) {
  LbfgsOptions easily;
  easily.tolerance_change = 1e-2;
  Problem rough(rosenbrock, far_start(20, torch::kFloat32));
  Lbfgs before(easily, rough.flat);
  const auto stopped = run(before, rough, 100);
  ASSERT_EQ(stopped.stop, DescentStop::kChange);
  EXPECT_GT(stopped.loss, 1e-6);
  Problem fine(rosenbrock, rough.x().to(torch::kFloat64));
  Lbfgs after({}, fine.flat);
  after.restore(before.state());
  EXPECT_EQ(after.iterations(), before.iterations());
  const auto outcome = run(after, fine, 100);
  EXPECT_EQ(outcome.stop, DescentStop::kGradient) << reason(outcome.stop);
  EXPECT_LT(outcome.loss, 1e-16);
}

TEST(TrainLbfgs, RestoredStateGoesOnToTheSameBits) {
  for (const auto& device : devices()) {
    for (const auto type : {torch::kFloat64, torch::kFloat32}) {
      for (const int64_t history : {6, 50}) {  // a ring that wraps, or not
        LbfgsOptions options;
        options.history = history;
        options.iterations = 5;
        const auto start = far_start(3000, type).to(device);
        Problem whole(rosenbrock, start), part(rosenbrock, start);
        Lbfgs uninterrupted(options, whole.flat);
        Lbfgs before(options, part.flat);
        run(uninterrupted, whole, 8);
        run(before, part, 3);
        const auto bytes = data::to_safetensors({before.state(), {}});
        Problem rest(rosenbrock, part.x());
        Lbfgs after(options, rest.flat);
        after.restore(data::from_safetensors(bytes, "state").tensors);
        EXPECT_EQ(after.iterations(), before.iterations());
        run(after, rest, 5);
        EXPECT_TRUE(torch::equal(rest.x(), whole.x()));
        EXPECT_EQ(after.iterations(), uninterrupted.iterations());
        EXPECT_EQ(after.evaluations(), uninterrupted.evaluations());
        const auto theirs = uninterrupted.state();
        for (const auto& [name, value] : after.state()) {
          EXPECT_TRUE(torch::equal(value, theirs.at(name))) << name;
        }
      }
    }
  }
}

TEST(TrainLbfgs, AStateThatDoesNotFitIsRefused) {
  Problem problem(rosenbrock, far_start(2));
  Lbfgs optimizer({}, problem.flat);
  run(optimizer, problem, 1);
  const auto good = optimizer.state();
  ASSERT_FALSE(good.empty());
  for (const auto& [name, value] : good) {
    auto bad = good;
    bad.erase(name);
    EXPECT_NE(::propagator::testing::thrown<DataError>([&] {
                optimizer.restore(bad);
              }).find(name),
              std::string::npos);
    bad[name] = torch::zeros({3}, torch::kInt32);
    EXPECT_THROW(optimizer.restore(bad), DataError) << name;
  }
  auto bad = good;
  bad["ring"] = torch::tensor({0, 50, 10, 0}, torch::kInt64);
  EXPECT_THROW(optimizer.restore(bad), DataError);
  bad = good;
  bad["counters"] = torch::tensor({1, 1, 77}, torch::kInt64);
  EXPECT_THROW(optimizer.restore(bad), DataError);
  LbfgsOptions other;
  other.history = 3;
  Lbfgs shorter(other, problem.flat);
  EXPECT_THROW(shorter.restore(good), DataError);
}

TEST(TrainLbfgs, Float32ComesAsNearAsItsRounding) {
  for (const int64_t n : {2, 20}) {
    Problem problem(rosenbrock, far_start(n, torch::kFloat32));
    Lbfgs optimizer({}, problem.flat);
    const auto outcome = run(optimizer, problem, 30);
    EXPECT_NE(outcome.stop, DescentStop::kNone);
    EXPECT_NE(outcome.stop, DescentStop::kNotFinite);
    EXPECT_LE(outcome.loss, 1e-9) << reason(outcome.stop);
    EXPECT_TRUE(near(problem.x(), torch::ones({n}), {0, 1e-4}));
  }
}

TEST(TrainLbfgs, Float32GoesOnBelowTheDigitsOfItsLoss) {
  // Beside 1 a loss below 6e-8 is not seen; only gradients lead further.
  Problem problem([](const torch::Tensor& x) { return rosenbrock(x) + 1; },
                  far_start(20, torch::kFloat32));
  Lbfgs optimizer({}, problem.flat);
  const auto outcome = run(optimizer, problem, 30);
  EXPECT_NE(outcome.stop, DescentStop::kNone);
  EXPECT_NE(outcome.stop, DescentStop::kNotFinite);
  EXPECT_TRUE(near(problem.x(), torch::ones({20}), {0, 1e-5}))
      << reason(outcome.stop);
  EXPECT_LE(optimizer.evaluations(), 300);
}

TEST(TrainLbfgs, SlopesLeadOnWhereNoiseHidesTheLoss) {
  // Far more noise than rounding has; the gradient knows nothing of it.
  const Function noisy = [](const torch::Tensor& x) {
    return rosenbrock(x) + 1 + 1e-5 * (1e14 * x.detach().sum()).sin();
  };
  const auto start = far_start(20);
  Problem whole(noisy, start), part(noisy, start);
  Lbfgs optimizer({}, whole.flat), before({}, part.flat);
  const auto outcome = run(optimizer, whole, 12);
  EXPECT_TRUE(near(whole.x(), torch::ones({20}), {0, 1e-6}))
      << reason(outcome.stop);
  run(before, part, 8);
  Problem rest(noisy, part.x());
  Lbfgs after({}, rest.flat);
  after.restore(before.state());
  run(after, rest, 4);  // it knows the noise
  EXPECT_TRUE(torch::equal(rest.x(), whole.x()));
  EXPECT_EQ(after.evaluations(), optimizer.evaluations());
}

TEST(TrainLbfgs, OtherTypesAreRefused) {
  Point module(torch::ones({2}, torch::kFloat16));
  FlatParameters flat(module);
  EXPECT_THROW(Lbfgs({}, flat), UsageError);
}

}  // namespace
}  // namespace propagator::train
