#include "propagator/train/broyden.h"

#include <torch/utils.h>

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

double smallest_eigenvalue(const torch::Tensor& matrix) {
  return torch::linalg_eigvalsh(matrix.cpu()).min().item<double>();
}

DescentOutcome steps(Broyden& method, Problem& problem, int count) {
  DescentOutcome outcome;
  for (int n = 0; n < count && outcome.stop == DescentStop::kNone; ++n) {
    outcome = method.step(problem.device_closure());
  }
  return outcome;
}

torch::Tensor positive(int64_t n, const std::string& name) {
  const auto a = random({n, n}, name);
  return a.mm(a.t()) + 0.1 * torch::eye(n, torch::kFloat64);
}

// The update as it is written, H y yᵀH and v vᵀ as whole matrices.
torch::Tensor updated(const torch::Tensor& h_matrix, const torch::Tensor& s,
                      const torch::Tensor& y) {
  const auto column = [](const torch::Tensor& v) { return v.unsqueeze(1); };
  const double n = static_cast<double>(s.numel());
  const double ys = y.dot(s).item<double>();
  const auto hy = h_matrix.mv(y);
  const double yhy = y.dot(hy).item<double>();
  const double b = s.dot(torch::linalg_inv(h_matrix).mv(s)).item<double>() / ys;
  const double h = yhy / ys, a = h * b - 1, c = std::sqrt(a / (a + 1));
  const double rho = std::min(1.0, h * (1 - c));
  const double theta = std::max((rho - 1) / a, std::min(1 / rho, (1 - b) / b));
  const double sigma = 1 + a * theta, phi = (1 - theta) / sigma;
  const double first = std::min(1.0, 1 / b);
  const double tau =
      theta > 0 ? first * std::min(std::pow(sigma, -1 / (n - 1)), 1 / theta)
                : std::min(first * std::pow(sigma, -1 / (n - 1)), sigma);
  const auto v = column(std::sqrt(yhy) * (s / ys - hy / yhy));
  return (h_matrix - column(hy).mm(column(hy).t()) / yhy + phi * v.mm(v.t())) /
             tau +
         column(s).mm(column(s).t()) / ys;
}

TEST(TrainBroyden, UpdateIsTheOneWrittenDown) {
  for (const int64_t n : {2, 7, 20}) {
    for (const double scale :
         {0.01, 0.3, 1.0, 30.0}) {  // of y: b on both sides
      const auto start = positive(n, "H");
      const auto curvature = positive(n, "B") * scale;
      InverseHessian hessian(torch::empty({n}, torch::kFloat64));
      hessian.restore(start, /*is_identity=*/false);
      const auto gradient = random({n}, "g");
      auto direction = torch::empty_like(gradient);
      const double slope = hessian.direction(gradient, direction);
      EXPECT_NEAR(slope, gradient.dot(direction).item<double>(), 1e-12);
      EXPECT_TRUE(near(direction, -start.mv(gradient), {1e-13, 1e-13}));
      const double step = 0.7;
      const auto s = step * direction, y = curvature.mv(s);
      hessian.update(step, s, y, gradient + y);
      const auto expected = updated(start, s, y);
      EXPECT_TRUE(near(hessian.matrix(), expected,
                       {1e-9, 1e-9 * expected.abs().max().item<double>()}));
      EXPECT_GT(smallest_eigenvalue(hessian.matrix()), 0);
      // H y = s: the secant equation of what is learned.
      EXPECT_TRUE(near(hessian.matrix().mv(y), s, {1e-8, 1e-9}));
      // The next direction, which costs no other pass over H.
      auto next = torch::empty_like(gradient);
      hessian.direction(gradient + y, next);
      EXPECT_TRUE(near(next, -hessian.matrix().mv(gradient + y), {1e-8, 1e-9}));
    }
  }
}

TEST(TrainBroyden, FirstUpdateScalesTheIdentity) {
  const int64_t n = 6;
  InverseHessian hessian(torch::empty({n}, torch::kFloat64));
  ASSERT_TRUE(hessian.is_identity());
  const auto gradient = random({n}, "g");
  auto direction = torch::empty_like(gradient);
  hessian.direction(gradient, direction);
  EXPECT_TRUE(torch::equal(direction, -gradient));
  const auto s = 0.2 * direction, y = positive(n, "B").mv(s);
  hessian.update(0.2, s, y, gradient + y);
  const double scale = (y.dot(s) / y.dot(y)).item<double>();
  EXPECT_TRUE(near(hessian.matrix(),
                   updated(scale * torch::eye(n, torch::kFloat64), s, y),
                   {1e-10, 1e-11}));
}

TEST(TrainBroyden, WhatIsNotPositiveDefiniteBecomesTheIdentity) {
  InverseHessian hessian(torch::empty({3}, torch::kFloat64));
  auto bad = torch::eye(3, torch::kFloat64);
  bad[1][1] = -1;
  hessian.restore(bad, false);
  EXPECT_FALSE(hessian.mend());
  EXPECT_TRUE(torch::equal(hessian.matrix(), torch::eye(3, torch::kFloat64)));
  EXPECT_TRUE(hessian.is_identity());
  auto skew = 2 * torch::eye(3, torch::kFloat64);
  skew[0][2] = 1e-3;
  hessian.restore(skew, false);
  EXPECT_TRUE(hessian.mend());
  EXPECT_TRUE(torch::equal(hessian.matrix(), hessian.matrix().t()));
  EXPECT_EQ(hessian.matrix()[0][2].item<double>(), 0);  // the lower one's
}

TEST(TrainBroyden, ReachesKnownMinimaWithAPositiveDefiniteMatrix) {
  const auto b = positive(12, "quadratic");
  const Function quadratic = [b](const torch::Tensor& x) {
    return 0.5 * (x - 1).dot(b.to(x.device()).mv(x - 1));
  };
  for (const auto& device : devices()) {
    for (const auto& [f, n] : {std::pair<Function, int64_t>{rosenbrock, 2},
                               {rosenbrock, 20},
                               {quadratic, 12}}) {
      Problem problem(f, far_start(n).to(device));
      BroydenOptions options;
      options.iterations = 10;
      options.tolerance_gradient = 1e-9;
      Broyden method(options, problem.flat);
      DescentOutcome outcome;
      double before = problem.evaluate().item<double>();
      for (int k = 0; k < 40 && outcome.stop == DescentStop::kNone; ++k) {
        outcome = method.step(problem.device_closure());
        EXPECT_LE(outcome.loss, before);
        before = outcome.loss;
        const auto matrix = method.hessian().matrix();
        EXPECT_TRUE(near(matrix, matrix.t(), {1e-9, 1e-9}));
        EXPECT_GT(smallest_eigenvalue(0.5 * (matrix + matrix.t())), 0);
      }
      EXPECT_EQ(outcome.stop, DescentStop::kGradient);
      EXPECT_TRUE(near(problem.x(), torch::ones({n}), {0, 1e-7}));
      EXPECT_LE(method.iterations(), 10 * n + 60);
      EXPECT_EQ(method.step(problem.device_closure()).evaluations, 0);
    }
  }
}

TEST(TrainBroyden, RestoredStateGoesOnToTheSameBits) {
  for (const auto type : {torch::kFloat64, torch::kFloat32}) {
    BroydenOptions options;
    options.iterations = 7;
    const auto start = far_start(40, type);
    Problem whole(rosenbrock, start), part(rosenbrock, start);
    Broyden uninterrupted(options, whole.flat), before(options, part.flat);
    steps(uninterrupted, whole, 6);
    steps(before, part, 2);
    const auto bytes = data::to_safetensors({before.state(), {}});
    Problem rest(rosenbrock, part.x());
    Broyden after(options, rest.flat);
    after.restore(data::from_safetensors(bytes, "state").tensors);
    steps(after, rest, 4);
    EXPECT_TRUE(torch::equal(rest.x(), whole.x()));
    const auto theirs = uninterrupted.state();
    for (const auto& [name, value] : after.state()) {
      EXPECT_TRUE(torch::equal(value, theirs.at(name))) << name;
    }
  }
}

// A loss whose gradient points the wrong way: no search finds anything.
LineLoss::Closure wrong(Problem& problem) {
  return [&] {
    const auto loss = problem.evaluate();
    problem.flat.gradients().neg_();
    return loss;
  };
}

TEST(TrainBroyden, AFailedSearchEndsAChunkAndSeveralTheMethod) {
  Problem problem(rosenbrock, far_start(2));
  BroydenOptions options;
  options.iterations = 5;
  Broyden method(options, problem.flat);
  steps(method, problem, 1);
  const auto before = problem.x().clone();
  EXPECT_EQ(method.step(wrong(problem)).stop, DescentStop::kNone);
  EXPECT_TRUE(torch::equal(problem.x(), before));
  EXPECT_FALSE(method.hessian().is_identity());
  // On the same points only another matrix may help.
  EXPECT_EQ(method.step(wrong(problem)).stop, DescentStop::kNone);
  EXPECT_TRUE(method.hessian().is_identity());
  // A chunk that comes to something is forgiven those before it.
  EXPECT_GT(steps(method, problem, 1).iterations, 0);
  for (int n = 0; n < 2; ++n) {
    EXPECT_EQ(method.step(wrong(problem)).stop, DescentStop::kNone);
  }
  EXPECT_EQ(method.step(wrong(problem)).stop, DescentStop::kLineSearch);
}

TEST(TrainBroyden, OnOtherPointsItGoesOnAndKeepsItsMatrixOnce) {
  Problem problem(rosenbrock, far_start(2));
  BroydenOptions options;
  options.iterations = 5;
  Broyden method(options, problem.flat);
  steps(method, problem, 1);
  const auto matrix = method.hessian().matrix();
  method.step(wrong(problem));
  method.failures().expect_new_cases();
  EXPECT_EQ(method.step(wrong(problem)).stop, DescentStop::kNone);
  EXPECT_TRUE(torch::equal(method.hessian().matrix(), matrix));
  int chunks = 2;
  for (; method.stop() == DescentStop::kNone && chunks < 100; ++chunks) {
    method.failures().expect_new_cases();
    method.step(wrong(problem));
    EXPECT_TRUE(method.hessian().is_identity());
  }
  EXPECT_EQ(method.stop(), DescentStop::kLineSearch);
  EXPECT_GT(chunks, 6);
}

TEST(TrainBroyden, CountsHowOftenItsMatrixWasLost) {
  Problem problem(rosenbrock, far_start(20));
  BroydenOptions options;
  options.iterations = 3;
  Broyden method(options, problem.flat);
  steps(method, problem, 1);
  EXPECT_EQ(method.lost(), 0);
  auto state = method.state();
  state["matrix"] = -state["matrix"];
  method.restore(state);
  EXPECT_GT(steps(method, problem, 1).iterations, 0);
  EXPECT_EQ(method.lost(), 1);
  Broyden other({}, problem.flat);
  other.restore(method.state());
  EXPECT_EQ(other.lost(), 1);
  state = method.state();
  state.erase("lost");  // as before there was a count
  other.restore(state);
  EXPECT_EQ(other.lost(), 0);
}

TEST(TrainBroyden, WhatDoesNotFitIsRefused) {
  Problem problem(rosenbrock, far_start(9));
  BroydenOptions few;
  few.max_parameters = 8;
  const auto said = ::propagator::testing::thrown<ConfigError>(
      [&] { Broyden(few, problem.flat); });
  EXPECT_NE(said.find("at most 8 parameters"), std::string::npos) << said;
  Broyden method({}, problem.flat);
  steps(method, problem, 1);
  const auto good = method.state();
  for (const auto& [name, value] : good) {
    auto bad = good;
    bad.erase(name);
    if (name != "lost") {
      EXPECT_THROW(method.restore(bad), DataError) << name;
    }
    bad[name] = torch::zeros({4}, torch::kInt32);
    EXPECT_THROW(method.restore(bad), DataError) << name;
  }
  auto bad = good;
  bad["matrix"] = good.at("matrix") * NAN;
  EXPECT_THROW(method.restore(bad), DataError);
  bad = good;
  bad["counters"] = torch::tensor({1, 1, 0, 77, 0}, torch::kInt64);
  EXPECT_THROW(method.restore(bad), DataError);
}

}  // namespace
}  // namespace propagator::train
