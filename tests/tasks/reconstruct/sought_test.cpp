#include <torch/utils.h>

#include <cmath>

#include "propagator/core/error.h"
#include "propagator/run/run.h"
#include "propagator/tasks/reconstruct/reconstruct.h"
#include "propagator/train/flat_parameters.h"
#include "tasks/training.h"
#include "testing.h"

// What readings tell of a problem: parameters with bounds, functions, and how
// sure both are.

namespace propagator::tasks {
namespace {

using testing::kDouble;
using torch::Tensor;

// A bar whose material is not known.
std::string straight(const std::string& unknown, const std::string& more = "") {
  return "task: reconstruct\nprecision: fp64\nproblem:\n"
         "  domain: ['x in [0, 1]', 't in [0, 1]']\n  fields: u\n"
         "  parameters: [s = 0.7]\n"
         "  unknown: [" +
         unknown +
         "]\n  equations: ['u_t = d(k*u_x, x) - s - (2 + 4*s*x + "
         "x^2)*exp(-t)']\n"
         "  exact: ['u = x^2*exp(-t) + x', 'k = 1 + s*x']\n"
         "sensors: {count: 40}\n"
         "model: {name: pinn, width: 8, layers: 2}\n"
         "functions: {width: 6, layers: 1}\n"
         "optimizer: {kind: levenberg_marquardt, adam_steps: 50}\n"
         "points: {per_axis: 8, validation_per_axis: 5, resample_every: 1}\n"
         "eval: {per_axis: 10}\nhard_constraints: no\n" +
         more;
}

run::Experiment experiment_of(const std::string& text) {
  return run::Experiment(config::Document::from_text(text, "test"));
}

TEST(TasksSought, TheJacobianHasWeightsParametersAndFunctions) {
  const auto e = experiment_of(
      straight("'k(x) in [0.1, 10]', 's in [0.01, 5]'", "loss: {data: 30}\n"));
  const auto model = testing::prepared_model(e);
  train::FlatParameters parameters(*model);
  auto& values = parameters.values();
  {
    const torch::NoGradGuard no_grad;
    values.add_(0.1 * testing::random({values.numel()}, "away"));
  }
  const auto at = values.clone();
  auto& task = e.task();
  const auto here = task.least_squares(*model, &values);
  // As the loss has it.
  const auto loss = task.loss(*model, data::Split::kTrain,
                              torch::arange(task.size(data::Split::kTrain)));
  EXPECT_NEAR(here.residuals.square().sum().item<double>(),
              loss.total.item<double>(), 1e-10 * loss.total.item<double>());
  const double h = 1e-6;
  for (int64_t p = 0; p < values.numel(); ++p) {
    const auto moved = [&](double by) {
      const torch::NoGradGuard no_grad;
      values.copy_(at);
      values[p] += by;
      return task.least_squares(*model, nullptr).residuals;
    };
    const auto slopes = (moved(h) - moved(-h)) / (2 * h);
    EXPECT_LT((here.jacobian[p] - slopes).abs().max().item<double>(),
              1e-6 * (1 + slopes.abs().max().item<double>()))
        << "parameter " << p;
  }
}

TEST(TasksSought, AFunctionDoesNotSeeOtherVariables) {
  const auto e = experiment_of(straight("'k(x)'"));
  const auto model = testing::prepared_model(e);
  {
    const torch::NoGradGuard no_grad;
    for (auto& p : model->parameters()) {
      p.add_(testing::random(p.sizes().vec(), "weights"));
    }
  }
  const autodiff::DerivativePlan plan(
      {{1, {1, 0}}, {1, {0, 1}}, {1, {1, 1}}, {1, {0, 2}}}, 2);
  const auto points = torch::rand({5, 1, 2}, torch::kFloat64);
  const auto answer =
      models::as_field_net(*model).forward(autodiff::Jet::moving(
          points, plan.directions(points.options()), plan.layout()));
  const auto size = [&](std::vector<int64_t> orders) {
    return plan.derivative(answer, {1, std::move(orders)})
        .abs()
        .max()
        .item<double>();
  };
  EXPECT_GT(size({1, 0}), 1e-3);
  EXPECT_EQ(size({0, 1}), 0);
  EXPECT_EQ(size({1, 1}), 0);
  EXPECT_EQ(size({0, 2}), 0);
}

TEST(TasksSought, AFunctionAndItsBoundsAreFoundByLevenbergMarquardt) {
  const testing::TemporaryFolder folder;
  const auto e = experiment_of(
      straight("'k(x) in [0.1, 10]'",
               "train: {max_steps: 200, checkpoint_every: 200}\n"));
  const auto checkpoint =
      testing::trained_to(200, e, kDouble, folder / "run", {});
  const auto model = e.make_model(kDouble);
  run::set_weights(e.task(), *model, checkpoint.best, "test");
  const auto numbers = e.task().evaluate(*model, data::Split::kTest).numbers;
  const auto& found = numbers.at("functions").at("k(x)");
  EXPECT_LT(found.at("relative_l2").get<double>(), 0.02)
      << found.at("largest_error");
  EXPECT_EQ(found.at("along").at("x").size(), 101u);
  EXPECT_LT(numbers.at("relative_l2").get<double>(), 1e-3) << numbers;
  EXPECT_TRUE(numbers.at("fields").contains("k"));
}

TEST(TasksSought, AFunctionGoesAroundAPeriodicVariable) {
  const auto e = experiment_of(
      "task: reconstruct\nprecision: fp64\nproblem:\n"
      "  domain: ['x in [0, 1]', 't in [0, 1]']\n  fields: u\n"
      "  unknown: ['q(x)']\n  equations: ['u_t = u_xx + q']\n"
      "  conditions: ['periodic x']\n"
      "  exact: ['u = sin(2*pi*x)*(1 - exp(-4*pi^2*t))', "
      "'q = 4*pi^2*sin(2*pi*x)']\n"
      "sensors: {count: 9}\nmodel: {name: pinn, width: 4}\n"
      "points: {per_axis: 4}\n");
  const auto model = testing::prepared_model(e);
  {
    const torch::NoGradGuard no_grad;
    for (auto& p : model->parameters()) {
      p.add_(testing::random(p.sizes().vec(), "weights"));
    }
  }
  const auto q = [&](double x) {
    return models::as_field_net(*model)
        .values(torch::tensor({{{x, 0.3}}}, torch::kFloat64))[0][0][1]
        .item<double>();
  };
  EXPECT_NEAR(q(0.1), q(1.1), 1e-12);
  EXPECT_GT(std::abs(q(0.25) - q(0.75)), 1e-3);  // the sine is seen too
}

TEST(TasksSought, NothingThatReadingsDoNotTellIsClaimed) {
  // u does not depend on what multiplies u_xx.
  const testing::TemporaryFolder folder;
  const auto e = experiment_of(
      "task: reconstruct\nprecision: fp64\nproblem:\n"
      "  domain: ['x in [0, 1]', 't in [0, 1]']\n  fields: u\n"
      "  parameters: [nu = 0.5, c = 1]\n"
      "  unknown: ['nu in [0.1, 1]', 'c in [0.1, 10]']\n"
      "  equations: ['u_t + c*u_x = nu*u_xx']\n"
      "  exact: ['u = x - c*t']\n"
      "sensors: {count: 40, noise: 0.02}\n"
      "model: {name: pinn, width: 6, layers: 1}\n"
      "optimizer: {kind: levenberg_marquardt, adam_steps: 20}\n"
      "points: {per_axis: 6, validation_per_axis: 4, resample_every: 1}\n"
      "eval: {per_axis: 6}\ntrain: {max_steps: 60, checkpoint_every: 60}\n");
  const auto checkpoint =
      testing::trained_to(60, e, kDouble, folder / "run", {});
  const auto model = e.make_model(kDouble);
  run::set_weights(e.task(), *model, checkpoint.best, "test");
  const auto evaluation = e.task().evaluate(*model, data::Split::kTest);
  const auto& all = evaluation.numbers.at("unknowns");
  EXPECT_FALSE(all.at("nu").at("determined").get<bool>()) << all;
  EXPECT_TRUE(all.at("c").at("determined").get<bool>()) << all;
  EXPECT_NEAR(all.at("c").at("value").get<double>(), 1, 0.1) << all;
  const double low = all.at("nu").at("interval_95")[0],
               high = all.at("nu").at("interval_95")[1];
  EXPECT_GE(low, 0.1);
  EXPECT_LE(high, 1);
  EXPECT_TRUE(std::ranges::any_of(evaluation.remarks, [](const auto& remark) {
    return remark.find("do not determine nu") != std::string::npos;
  }));
}

TEST(TasksSought, ReadingsFewerThanUnknownsAreRefused) {
  const auto e = experiment_of(
      "task: reconstruct\nproblem:\n"
      "  domain: ['x in [0, 1]', 't in [0, 1]']\n  fields: u\n"
      "  parameters: [a = 1, b = 1]\n  unknown: ['a = 2', 'b = 2']\n"
      "  equations: ['u_t = a*u_xx + b*u_x']\n"
      "  exact: ['u = x + t']\n"
      "sensors: {count: 1, held_out: 0}\nmodel: {name: pinn, width: 4}\n"
      "points: {per_axis: 4}\n");
  EXPECT_THROW(e.task().prepare(0, kDouble), DataError);
}

TEST(TasksSought, AnUnknownFunctionCannotBeReadOfItself) {
  auto text = straight("'k(x)'");
  const auto from = text.find("  exact:");
  text.erase(from, text.find('\n', from) - from);
  EXPECT_THROW(experiment_of(text), ConfigError);
  text = straight("'k(x)'");
  text.replace(text.find("name: pinn, width: 8, layers: 2"), 31,
               "name: gaussian_process");
  EXPECT_THROW(experiment_of(text), ConfigError);
}

}  // namespace
}  // namespace propagator::tasks
