#include <torch/utils.h>

#include "propagator/core/error.h"
#include "propagator/core/files.h"
#include "propagator/data/tensor_file.h"
#include "propagator/run/run.h"
#include "propagator/run/run_report.h"
#include "propagator/run/train.h"
#include "propagator/tasks/reconstruct/reconstruct.h"
#include "tasks/training.h"
#include "testing.h"

// Models that are fitted to readings and have nothing to train, through the
// whole of a run.

namespace propagator::tasks {
namespace {

run::Experiment bar_with(const std::string& model,
                         const std::string& more = "") {
  return run::Experiment(config::Document::from_text(
      "task: reconstruct\nproblem:\n"
      "  domain: ['x in [0, 1]', 't in [0, 1]']\n  fields: u\n"
      "  equations: [u_t = 0.1*u_xx]\n"
      "  exact: [u = 3 + exp(-0.1*pi^2*t)*sin(pi*x)]\n"
      "sensors: {count: 40}\nmodel: {name: " +
          model +
          "}\npoints: {per_axis: 8, validation_per_axis: 5}\n"
          "eval: {per_axis: 20}\nreport: {page: no}\n" +
          more,
      "test"));
}

TEST(TasksFitted, AModelWithNothingToTrainIsTrainedTestedAndResumed) {
  for (const std::string model :
       {"gaussian_process, kernel: squared_exponential", "radial_basis",
        "gaussian_process}\nloss: {readings: heteroscedastic"}) {
    const testing::TemporaryFolder folder;
    const auto e = bar_with(model);
    Observer silent;
    const auto trained = run::train(e, folder / "run", false, silent);
    ASSERT_TRUE(trained.result) << model;
    EXPECT_EQ(trained.steps, 0);
    EXPECT_GT(trained.seconds, 0);
    EXPECT_EQ(trained.trained_by.size(), 1U);
    const auto& record = trained.result->record;
    EXPECT_EQ(record.at("parameters"), 0);
    EXPECT_GT(record.at("training_seconds").get<double>(), 0);
    const double error = record.at("relative_l2");
    // The field goes from 3 to 4: 3 everywhere is off by 0.15.
    EXPECT_LT(error, 1e-2) << model;
    // From the folder alone, in single precision.
    const auto run = run::open(folder / "run");
    const auto x = torch::tensor({0.3, 0.6}, torch::kFloat64);
    EXPECT_TRUE(testing::near(
        run.apply({{"x", x}, {"t", x}}).at("u").to(torch::kFloat64),
        3 + torch::exp(-0.1 * M_PI * M_PI * x) * torch::sin(M_PI * x),
        {0, 2e-2}))
        << model;
    const auto again = run::resume(folder / "run", {}, silent);
    EXPECT_EQ(again.result->record.at("relative_l2").get<double>(), error);
    EXPECT_EQ(again.trained_by, trained.trained_by);
  }
}

TEST(TasksFitted, TheVarianceOfAProcessCoversNoisyReadings) {
  const auto e = bar_with("gaussian_process",
                          "sensors.noise: 0.2\nsensors.held_out: 0.9\n"
                          "loss: {readings: heteroscedastic}\n");
  const auto model = testing::prepared_model(e);
  e.task().calibrate(*model);
  const auto numbers = e.task().evaluate(*model, data::Split::kTest).numbers;
  const auto& coverage = numbers.at("held_out_fit").at("coverage");
  // Three standard deviations of a share of 36 readings.
  EXPECT_NEAR(coverage.at("50").get<double>(), 0.5, 0.25);
  EXPECT_NEAR(coverage.at("90").get<double>(), 0.9, 0.15);
  EXPECT_NEAR(numbers.at("held_out_fit").at("error").at("u").get<double>(), 0.2,
              0.06);
}

TEST(TasksFitted, InitialConditionsAreNotPutInFrontOfAFit) {
  // A network would answer u = f + t N, and the fit is of u, not of N.
  const std::string conditions =
      "task: reconstruct\nproblem:\n"
      "  domain: ['x in [0, 1]', 't in [0, 1]']\n  fields: u\n"
      "  equations: [u_t = 0.1*u_xx]\n"
      "  conditions: ['at t=0: u = sin(2*pi*x)', 'periodic x']\n"
      "  exact: [u = exp(-0.4*pi^2*t)*sin(2*pi*x)]\n"
      "sensors: {count: 80}\nmodel: {name: gaussian_process}\n"
      "points: {per_axis: 5}\neval: {per_axis: 20}\n";
  const run::Experiment e(config::Document::from_text(conditions, "test"));
  const auto model = testing::prepared_model(e);
  e.task().calibrate(*model);
  const auto numbers = e.task().evaluate(*model, data::Split::kTest).numbers;
  EXPECT_LT(numbers.at("relative_l2").get<double>(), 1e-2) << numbers;
  EXPECT_EQ(numbers.at("conditions").size(), 1U)
      << "the initial one is measured, the periodic one is exact";
}

TEST(TasksFitted, WhatIsOnlyForTrainingHasNoEffectAndSaysSo) {
  const auto remarks =
      bar_with("radial_basis", "train: {max_steps: 7}\n").remarks({});
  ASSERT_EQ(remarks.size(), 1U);
  EXPECT_EQ(remarks[0],
            "train.max_steps has no effect: radial_basis is fitted, not "
            "trained");
  EXPECT_TRUE(bar_with("radial_basis").remarks({}).empty());
}

TEST(TasksFitted, AKernelWithoutTheDerivativesOfTheProblemIsRefused) {
  const auto message = testing::thrown<ConfigError>(
      [] { bar_with("radial_basis, kernel: thin_plate"); });
  EXPECT_NE(message.find("derivatives to order 1 only"), std::string::npos)
      << message;
}

// Modes come from snapshots of another flow, which a simulator makes where they
// are not there yet.
TEST(TasksFitted, SnapshotsOfModesAreSimulatedBesideTheTruth) {
  const auto e = bar_with(
      "pod, file: b.h5, simulator: wake, simulation: [wake.reynolds=110]",
      "truth: {file: a.h5, simulator: wake}\n");
  const auto files = e.task().simulated_files();
  ASSERT_EQ(files.size(), 2U);
  EXPECT_EQ(files[0].path, "a.h5");
  EXPECT_EQ(files[1].path, "b.h5");
  EXPECT_EQ(files[1].simulator, "wake");
  EXPECT_EQ(files[1].settings, std::vector<std::string>{"wake.reynolds=110"});
  const auto lines = e.task().inspect();
  EXPECT_EQ(lines.back(), "b.h5 is not there yet: wake computes it first");
  const auto message = testing::thrown<ConfigError>(
      [] { bar_with("pod, file: a.h5, simulator: wave"); });
  EXPECT_NE(message.find("there is no simulator wave"), std::string::npos)
      << message;
}

TEST(TasksFitted, ModesOfTheTruthItselfAreWarnedOf) {
  const testing::TemporaryFolder folder;
  const auto x = torch::linspace(0, 1, 9, torch::kFloat64);
  const auto grid = torch::meshgrid({x, x}, "ij");
  const auto path = (folder / "all.h5").string();
  data::save_tensors(
      path,
      {{{"x", x}, {"t", x}, {"u", torch::exp(-grid[1]) * torch::sin(grid[0])}},
       ""});
  const auto e =
      bar_with("pod, file: " + path, "truth: {file: " + path + "}\n");
  testing::Lines lines;
  const ObserverScope scope(lines);
  e.task().prepare(0, testing::kDouble);
  ASSERT_EQ(lines.warnings.size(), 1U);
  EXPECT_NE(lines.warnings[0].find("model.file is truth.file"),
            std::string::npos);
}

TEST(TasksFitted, SolveHasNoReadingsForThem) {
  for (const std::string name : {"gaussian_process", "radial_basis", "pod"}) {
    EXPECT_THROW(
        run::Experiment(config::Document::from_text(
            "task: solve\nproblem:\n  domain: ['x in [0, 1]']\n  fields: u\n"
            "  equations: [u_x = 1]\n  conditions: ['on x=0: u = 0']\n"
            "model: {name: " +
                name + "}\n",
            "test")),
        ConfigError);
    EXPECT_FALSE(all_tasks().at("solve").models.contains(name));
    EXPECT_TRUE(all_tasks().at("reconstruct").models.contains(name));
  }
}

}  // namespace
}  // namespace propagator::tasks
