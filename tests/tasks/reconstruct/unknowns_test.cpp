#include <torch/utils.h>

#include <cmath>

#include "propagator/core/error.h"
#include "propagator/run/experiment.h"
#include "propagator/run/run.h"
#include "propagator/tasks/reconstruct/laplace.h"
#include "propagator/tasks/reconstruct/scaled_net.h"
#include "tasks/training.h"
#include "testing.h"

namespace propagator::tasks {
namespace {

using testing::kDouble;
using testing::random;

TEST(TasksUnknowns, AnEntryOfTheInverseHessianIsFound) {
  const auto root = random({12, 12}, "root");
  const auto hessian = root.matmul(root.t()) + torch::eye(12, torch::kFloat64);
  const auto centre = random({12}, "centre");
  const auto gradient = [&](const torch::Tensor& x) {
    return hessian.matmul(x - centre);
  };
  const auto inverse = torch::inverse(hessian);
  for (const int64_t entry : {0, 7}) {
    const auto found = inverse_hessian_entry(gradient, centre, entry, 100);
    EXPECT_TRUE(found.settled);
    EXPECT_NEAR(found.value, inverse[entry][entry].item<double>(),
                1e-5 * found.value);
  }
  // It comes from below, and says when there was no time.
  const auto early = inverse_hessian_entry(gradient, centre, 0, 2);
  EXPECT_FALSE(early.settled);
  EXPECT_LT(early.value, inverse[0][0].item<double>());
}

TEST(TasksUnknowns, KeepTheirSignAndBeginWhereToldTo) {
  const auto e = run::Experiment(config::Document::from_text(
      "task: reconstruct\nproblem:\n"
      "  domain: ['x in [0, 1]', 't in [0, 1]']\n  fields: u\n"
      "  parameters: [a = 1, b = 0, c = -1]\n"
      "  unknown: [a = 3, b = 0, c = -2]\n"
      "  equations: [u_t = a*u_xx + b + c*u]\n  exact: [u = x]\n"
      "sensors: {count: 9}\nmodel: {name: pinn}\n"
      "points: {per_axis: 4}\n",
      "test"));
  const auto model = e.make_model(kDouble);
  auto values = models::as_field_net(*model).unknowns().detach();
  EXPECT_TRUE(
      torch::equal(values, torch::tensor({3., 0., -2.}, torch::kFloat64)));
  const torch::NoGradGuard no_grad;
  for (const auto& item : model->named_parameters()) {
    if (item.key().ends_with("sought")) item.value().fill_(-1);
  }
  values = models::as_field_net(*model).unknowns();
  EXPECT_TRUE(
      testing::near(values,
                    torch::tensor({3 * std::exp(-1.), -1., -2 * std::exp(-1.)},
                                  torch::kFloat64),
                    testing::kFloat64));
}

run::Experiment rod_of_unknown_rate(const std::string& more) {
  return run::Experiment(config::Document::from_text(
      "task: reconstruct\nprecision: fp64\nproblem:\n"
      "  domain: ['x in [0, 1]', 't in [0, 1]']\n  fields: u\n"
      "  parameters: [nu = 0.1]\n  unknown: [nu = 0.4]\n"
      "  equations: [u_t = nu*u_xx]\n"
      "  exact: [u = exp(-nu*pi^2*t)*sin(pi*x)]\n"
      "sensors: {count: 60}\nmodel: {name: pinn, width: 12, layers: 2}\n"
      "points: {per_axis: 10, validation_per_axis: 5}\n"
      "eval: {per_axis: 20}\n" +
          more,
      "test"));
}

TEST(TasksUnknowns, ARateIsFoundFromReadingsAndItsIntervalHoldsIt) {
  const testing::TemporaryFolder folder;
  const auto e = rod_of_unknown_rate(
      "sensors.noise: 0.02\ntrain: {max_steps: 60, checkpoint_every: 60}\n");
  const auto checkpoint =
      testing::trained_to(60, e, kDouble, folder / "run", {});
  const auto model = e.make_model(kDouble);
  run::set_weights(e.task(), *model, checkpoint.best, "test");
  const auto evaluation = e.task().evaluate(*model, data::Split::kTest);
  const auto& found = evaluation.numbers.at("unknowns").at("nu");
  EXPECT_NEAR(found.at("value").get<double>(), 0.1, 0.01) << found;
  EXPECT_EQ(found.at("truth"), 0.1);
  const double low = found.at("interval_95")[0],
               high = found.at("interval_95")[1];
  EXPECT_LT(low, found.at("value").get<double>());
  EXPECT_LT(low, 0.1 * 1.02) << found;
  EXPECT_GT(high, 0.1 * 0.98) << found;
  // Neither a guess nor a certainty.
  EXPECT_GT(high - low, 1e-4);
  EXPECT_LT(high - low, 0.05);
}

TEST(TasksUnknowns, TheLossDependsOnThemThroughTheEquation) {
  const auto e = rod_of_unknown_rate("");
  const auto model = testing::prepared_model(e);
  const auto all = torch::arange(e.task().size(data::Split::kTrain));
  torch::Tensor sought;
  for (const auto& item : model->named_parameters()) {
    if (item.key().ends_with("sought")) sought = item.value();
  }
  const auto total = [&] {
    return e.task().loss(*model, data::Split::kTrain, all).total;
  };
  total().backward();
  const double slope = sought.grad().item<double>();
  const torch::NoGradGuard no_grad;
  const double h = 1e-5;
  sought += h;
  const double above = total().item<double>();
  sought -= 2 * h;
  const double below = total().item<double>();
  EXPECT_NEAR(slope, (above - below) / (2 * h), 1e-6 * std::abs(slope) + 1e-9);
  EXPECT_NE(slope, 0);
}

TEST(TasksUnknowns, ReadingsCannotBeDrawnWithoutTheTruth) {
  const auto text =
      "task: reconstruct\nproblem:\n"
      "  domain: ['x in [0, 1]', 't in [0, 1]']\n  fields: u\n"
      "  unknown: [nu = 0.4]\n  equations: [u_t = nu*u_xx]\n"
      "  conditions: ['at t=0: u = sin(pi*x)', 'on boundary: u = 0']\n"
      "sensors: {count: 60}\n";
  EXPECT_THROW(run::Experiment(config::Document::from_text(text, "test")),
               ConfigError);
}

}  // namespace
}  // namespace propagator::tasks
