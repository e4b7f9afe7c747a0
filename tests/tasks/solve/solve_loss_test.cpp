#include "propagator/tasks/solve/solve_loss.h"

#include <cmath>

#include "propagator/core/error.h"
#include "propagator/models/pinn.h"
#include "propagator/models/siren.h"
#include "propagator/train/flat_parameters.h"
#include "tasks/training.h"
#include "testing.h"

namespace propagator::tasks {
namespace {

using testing::kDouble;

class TasksSolveLoss : public ::testing::Test {
 protected:
  SolveLoss loss(const SolveLossOptions& options) const {
    return {problem, conditions, options};
  }

  const pde::Problem problem =
      pde::Problem::parse({.domain = {"x in [0, 1]", "y in [0, 1]"},
                           .fields = {"u"},
                           .equations = {"u_xx + u_yy = 1"},
                           .conditions = {"on x=0: u = 0", "on y=1: u_y = x"}});
  const SolveConditions conditions{problem, HardConstraints::kYes};
};

// Its squares are the loss, and 2 Jᵀ r its gradient, with every kind of
// condition learned.
TEST_F(TasksSolveLoss, LeastSquaresAreTheLoss) {
  const auto problem = pde::Problem::parse(
      {.domain = {"x in [0, 1]", "t in [0, 1]"},
       .fields = {"u", "v"},
       .equations = {"u_t + u*v_x = 0.1*u_xx", "v_t + v_xxx = u^2"},
       .conditions = {"at t=0: u = sin(pi*x)", "at t=0: v = x", "on x=0: u = 0",
                      "on x=1: u_x = t", "periodic x: v"}});
  const SolveConditions learned(problem, HardConstraints::kNo);
  SolveLoss loss(problem, learned,
                 {.equation = 2, .initial = 30, .boundary = 5});
  loss.prepare(pde::Derivatives::kHonest, 0, kDouble);
  const SolvePoints points(problem, learned, {.per_axis = 9}, {}, 0, 0,
                           kDouble);
  models::PinnOptions pinn;
  pinn.width = 12;
  models::SirenOptions siren;
  siren.width = 10;
  const auto options =
      std::initializer_list<const models::FieldNetOptions*>{&pinn, &siren};
  for (const auto* one : options) {
    const auto net = one->make({{0, 0}, {1, 1}, 2, 1});
    net->initialise(3);
    net->to(torch::kFloat64);
    train::FlatParameters flat(*net);
    const auto all = loss.at(*net, points, data::Split::kTrain,
                             torch::arange(81, torch::kInt64));
    flat.add_gradient_of(all.total, 1);
    const auto squares = loss.least_squares(*net, points, &flat.values());
    const auto& r = squares.residuals;
    EXPECT_EQ(r.numel(), 2 * 81 + 5 * 9);
    EXPECT_NEAR(r.dot(r).item<double>(), all.total.item<double>(),
                1e-12 * all.total.item<double>());
    const auto gradient = 2 * squares.jacobian.mv(r);
    const double size = gradient.abs().max().item<double>();
    EXPECT_TRUE(testing::near(gradient, flat.gradients(), {0, 1e-12 * size}));
    const auto alone = loss.least_squares(*net, points, nullptr);
    EXPECT_TRUE(testing::near(alone.residuals, r, {0, 1e-12 * size}));
    EXPECT_FALSE(alone.jacobian.defined());
  }
}

TEST_F(TasksSolveLoss, LeastSquaresOfOthersAreRefused) {
  const auto net = models::field_nets()
                       .at("spformer-small")
                       .options()
                       ->make({{0, 0}, {1, 1}, 1, -1});
  net->to(torch::kFloat64);
  train::FlatParameters flat(*net);
  for (const auto balance :
       {pde::Balance::kFixed, pde::Balance::kUncertainty}) {
    auto one = loss({.balance = balance});
    one.prepare(pde::Derivatives::kHonest, 0, kDouble);
    const SolvePoints points(problem, conditions, {.per_axis = 4}, {}, 0, 0,
                             kDouble);
    EXPECT_THROW(one.least_squares(*net, points, &flat.values()), ConfigError);
  }
}

// Σ (w_n m_n - log w_n) over the terms' mean squares m_n, with the weights of
// the configuration at first.
TEST_F(TasksSolveLoss, LearnedWeightsBeginAsConfigured) {
  auto learned = loss(
      {.equation = 2, .boundary = 5, .balance = pde::Balance::kUncertainty});
  const auto net =
      models::field_nets().at("pinn").options()->make({{0, 0}, {1, 1}, 1, -1});
  net->initialise(3);
  net->to(torch::kFloat64);
  learned.prepare(pde::Derivatives::kHonest, 0, kDouble);
  const SolvePoints points(problem, conditions, {.per_axis = 4}, {},
                           learned.slabs(), 0, kDouble);
  const auto all = torch::arange(16, torch::kInt64);
  const auto at = [&](data::Split split) {
    return learned.at(*net, points, split, all);
  };
  const auto training = at(data::Split::kTrain);
  const std::vector<double> weights{2, 5, 5};
  ASSERT_EQ(training.terms.size(), 6u);  // three, and their weights
  double total = 0;
  for (size_t n = 0; n < weights.size(); ++n) {
    EXPECT_EQ(training.terms[n].name, learned.term_names()[n]);
    total += weights[n] * training.terms[n].value.item<double>() -
             std::log(weights[n]);
    EXPECT_NEAR(training.terms[n + 3].value.item<double>(), weights[n], 1e-6);
  }
  EXPECT_NEAR(training.total.item<double>(), total, 1e-6 * std::abs(total));
  // They get a gradient of their own and are no part of the model.
  const auto logs = learned.learned().at(SolveLoss::kLogVariances);
  training.total.backward();
  for (size_t n = 0; n < weights.size(); ++n) {
    const double mean = training.terms[n].value.item<double>();
    EXPECT_NEAR(logs.grad()[static_cast<int64_t>(n)].item<double>(),
                1 - weights[n] * mean, 1e-6 * (1 + weights[n] * mean));
  }
  EXPECT_EQ(net->named_parameters().find(SolveLoss::kLogVariances), nullptr);
  // Validation has the weights of the configuration, whatever is learned.
  EXPECT_EQ(at(data::Split::kValidation).terms.size(), 3u);
}

TEST_F(TasksSolveLoss, FixedWeightsAreNotLearned) {
  auto fixed = loss({});
  fixed.prepare(pde::Derivatives::kHonest, 0, kDouble);
  EXPECT_TRUE(fixed.learned().empty());
  EXPECT_EQ(fixed.slabs(), 0);
  EXPECT_TRUE(fixed.state().empty());
}

TEST_F(TasksSolveLoss, WeightsAreRestoredWhereACheckpointHasThem) {
  auto balanced = loss({.balance = pde::Balance::kNtk});
  balanced.prepare(pde::Derivatives::kHonest, 0, kDouble);
  const auto weights = balanced.state().at("weights");
  const auto before = weights.clone();
  balanced.restore({});  // of a run whose weights were fixed
  EXPECT_TRUE(torch::equal(weights, before));
  balanced.restore({{"weights", before * 3}});
  EXPECT_TRUE(torch::equal(weights, before * 3));
  EXPECT_THROW(balanced.restore({{"weights", torch::ones({7})}}), DataError);
}

TEST_F(TasksSolveLoss, OptionsThatContradictTheProblemAreRefused) {
  EXPECT_THROW(loss({.causality = 1}), ConfigError);
  EXPECT_THROW(loss({.equation = 0, .initial = 1, .boundary = 0}), ConfigError);
  EXPECT_THROW(loss({.boundary = 0, .balance = pde::Balance::kNtk}),
               ConfigError);
}

}  // namespace
}  // namespace propagator::tasks
