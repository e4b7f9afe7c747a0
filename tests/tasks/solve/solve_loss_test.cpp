#include "propagator/tasks/solve/solve_loss.h"

#include <cmath>

#include "propagator/core/error.h"
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
