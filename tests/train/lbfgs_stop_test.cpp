#include <cmath>
#include <limits>
#include <stdexcept>

#include "propagator/train/lbfgs.h"
#include "testing.h"
#include "train/lbfgs_problem.h"

namespace propagator::train {
namespace {

using propagator::testing::near;
using namespace lbfgs_problems;

TEST(TrainLbfgs, StopsAtASmallGradient) {
  Problem problem(rosenbrock, torch::ones({4}, torch::kFloat64));
  Lbfgs optimizer({}, problem.flat);
  const auto outcome = optimizer.step(problem.closure());
  EXPECT_EQ(outcome.stop, DescentStop::kGradient);
  EXPECT_EQ(outcome.iterations, 0);
  EXPECT_EQ(outcome.evaluations, 1);
}

TEST(TrainLbfgs, StopsAtASmallChange) {
  for (const double offset : {0.0, 1e6}) {  // of the step; of the loss
    Problem problem(
        [=](const torch::Tensor& x) { return x.pow(4).sum() + offset; },
        torch::ones({3}, torch::kFloat64));
    LbfgsOptions options;
    options.tolerance_gradient = 0;
    options.tolerance_change = offset > 0 ? 1e-12 : 1e-3;
    Lbfgs optimizer(options, problem.flat);
    EXPECT_EQ(run(optimizer, problem, 10).stop, DescentStop::kChange);
  }
}

TEST(TrainLbfgs, StopsWhenNoStepLowersTheLoss) {
  Problem problem(rosenbrock, far_start(2));
  Lbfgs optimizer({}, problem.flat);
  run(optimizer, problem, 1);  // so that there is a history to drop
  const auto before = problem.x().clone();
  // From here the gradient points the wrong way.
  const auto wrong = [&] {
    const double loss = problem.closure()();
    problem.flat.gradients().neg_();
    return loss;
  };
  const auto outcome = optimizer.step(wrong);
  EXPECT_EQ(outcome.stop, DescentStop::kLineSearch);
  EXPECT_GT(outcome.evaluations, 25);  // both searches
  EXPECT_TRUE(torch::equal(problem.x(), before));
  const auto again = optimizer.step(problem.closure());
  EXPECT_EQ(again.stop, DescentStop::kLineSearch);
  EXPECT_EQ(again.evaluations, 0);
  EXPECT_EQ(again.loss, outcome.loss);
}

TEST(TrainLbfgs, GoesOnWithoutItsHistoryAfterAFailedSearch) {
  Problem problem(rosenbrock, far_start(2));
  Lbfgs optimizer({}, problem.flat);
  run(optimizer, problem, 1);
  const auto start = problem.x().clone();
  problem.evaluate();
  const auto steepest = -problem.flat.gradients().clone();
  const auto ahead = steepest / steepest.norm();
  torch::Tensor tried;
  const auto nearly = [&] {  // uphill everywhere but straight ahead
    const double loss = problem.closure()();
    const auto moved = problem.x() - start;
    const double length = moved.norm().item<double>();
    const double aside =
        (moved - moved.dot(ahead) * ahead).norm().item<double>();
    if (aside > 1e-6 * length) return loss + 1e6 * aside;
    if (length > 0 && !tried.defined()) tried = moved;
    return loss;
  };
  const auto outcome = optimizer.step(nearly);
  ASSERT_TRUE(tried.defined());
  EXPECT_TRUE(near(tried / tried.norm(), ahead, {0, 1e-6}));
  EXPECT_LT(tried.abs().sum().item<double>(), 0.011);
  EXPECT_EQ(outcome.stop, DescentStop::kNone);
  EXPECT_EQ(outcome.iterations, 1);
  EXPECT_EQ(run(optimizer, problem, 20).stop, DescentStop::kGradient);
}

TEST(TrainLbfgs, StopsWhereTheGradientVanishesInItsSquare) {
  Problem problem([](const torch::Tensor& x) { return (1e-200 * x).sum(); },
                  torch::ones({3}, torch::kFloat64));
  LbfgsOptions options;
  options.tolerance_gradient = 0;
  Lbfgs optimizer(options, problem.flat);
  EXPECT_EQ(run(optimizer, problem, 1).stop, DescentStop::kNotDescent);
}

TEST(TrainLbfgs, StopsWhereTheSquareOfTheGradientOverflows) {
  const auto huge = [](const torch::Tensor& x) { return 1e30 * rosenbrock(x); };
  Problem problem(huge, far_start(2, torch::kFloat32));
  Lbfgs optimizer({}, problem.flat);
  const auto stop = run(optimizer, problem, 5).stop;
  EXPECT_EQ(stop, DescentStop::kTooLarge) << reason(stop);
}

TEST(TrainLbfgs, NotFiniteKeepsTheBestPoint) {
  for (const int64_t good : {0, 1, 7}) {
    Problem problem(rosenbrock, far_start(2));
    Lbfgs optimizer({}, problem.flat);
    int64_t calls = 0;
    double best = std::numeric_limits<double>::infinity();
    auto best_x = problem.x().clone();
    const auto outcome = optimizer.step([&] {
      const double loss = problem.closure()();
      if (++calls > good) return std::nan("");
      if (loss < best) best = loss, best_x = problem.x().clone();
      return loss;
    });
    EXPECT_EQ(outcome.stop, DescentStop::kNotFinite);
    EXPECT_TRUE(torch::equal(problem.x(), best_x)) << good;
    EXPECT_TRUE(good == 0 || outcome.loss == best);
  }
}

TEST(TrainLbfgs, PassesOverPointsThatAreNotFinite) {
  // The first step, to x < 0, has no logarithm; 1/x + log x is least at 1.
  Problem problem(
      [](const torch::Tensor& x) { return (1 / x + x.log()).sum(); },
      torch::full({1}, 0.5, torch::kFloat64));
  LbfgsOptions options;
  options.lr = 100;
  Lbfgs optimizer(options, problem.flat);
  EXPECT_EQ(run(optimizer, problem, 5).stop, DescentStop::kGradient);
  EXPECT_NEAR(problem.x().item<double>(), 1, 1e-8);
}

TEST(TrainLbfgs, TheGradientIsThatOfThePointAccepted) {
  // It falls evenly to a cliff, and searches end beyond it: what they take is
  // not what they saw last.
  Problem problem([](const torch::Tensor& x) { return -x.sum(); },
                  torch::zeros({1}, torch::kFloat64));
  LbfgsOptions options;
  options.iterations = 1;
  Lbfgs optimizer(options, problem.flat);
  for (int k = 0; k < 3; ++k) {
    double last = 0;
    const auto outcome = optimizer.step([&] {
      last = problem.x().item<double>();
      const bool fell = last >= 0.3;
      problem.flat.gradients().fill_(fell ? std::nan("") : -1 - last);
      return fell ? std::nan("") : -last - last * last / 2;
    });
    const double x = problem.x().item<double>();
    EXPECT_GT(x, 0.2);
    EXPECT_LT(x, 0.3);
    EXPECT_EQ(outcome.loss, -x - x * x / 2);
    EXPECT_EQ(problem.flat.gradients().item<double>(), -1 - x);
  }
}

TEST(TrainLbfgs, AClosureThatThrowsLeavesTheLastAcceptedPoint) {
  Problem problem(rosenbrock, far_start(2));
  Lbfgs optimizer({}, problem.flat);
  torch::Tensor best_x;
  double best = std::numeric_limits<double>::infinity();
  int calls = 0;
  const auto bad = [&]() -> double {
    const double loss = problem.closure()();
    if (++calls == 9) throw std::runtime_error("out of memory");
    if (loss < best) best = loss, best_x = problem.x().clone();
    return loss;
  };
  EXPECT_THROW(optimizer.step(bad), std::runtime_error);
  EXPECT_TRUE(torch::equal(problem.x(), best_x));
  const auto gradients = problem.flat.gradients().clone();
  problem.evaluate();
  EXPECT_TRUE(torch::equal(problem.flat.gradients(), gradients));
  run(optimizer, problem, 20);  // and it can go on
  EXPECT_TRUE(near(problem.x(), torch::ones({2}), {0, 1e-8}));
}

TEST(TrainLbfgs, AStoppedStateStaysStopped) {
  Problem problem(rosenbrock, far_start(2));
  Lbfgs optimizer({}, problem.flat), restored({}, problem.flat);
  const auto outcome = run(optimizer, problem, 20);
  restored.restore(optimizer.state());
  const auto again = restored.step(problem.closure());
  EXPECT_EQ(again.stop, outcome.stop);
  EXPECT_EQ(again.loss, outcome.loss);
  EXPECT_EQ(again.gradient_norm, outcome.gradient_norm);
  EXPECT_EQ(again.evaluations, 0);
}

TEST(TrainLbfgs, EveryStopHasANameAndASentence) {
  for (const auto& [stop, name] : config::Names<DescentStop>::all) {
    EXPECT_EQ(config::value_of<DescentStop>(name), stop);
    EXPECT_GT(reason(stop).size(), 10u);
  }
  const auto stuck = [](Precision precision, const std::string& hint) {
    return reason(DescentStop::kLineSearch, precision).find(hint) !=
           std::string::npos;
  };
  EXPECT_TRUE(stuck(Precision::kTF32, "(fp32 goes further)"));
  EXPECT_TRUE(
      stuck(Precision::kFloat32, "in fp32; resumed in fp64 it goes further"));
  EXPECT_FALSE(stuck(Precision::kFloat64, "goes further"));
  config::Schema schema;
  LbfgsOptions options;
  options.describe(schema);
  EXPECT_EQ(schema.fields().size(), 6u);
}

}  // namespace
}  // namespace propagator::train
