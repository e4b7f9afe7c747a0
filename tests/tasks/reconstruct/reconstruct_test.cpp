#include "propagator/tasks/reconstruct/reconstruct.h"

#include <torch/utils.h>

#include "propagator/run/run.h"
#include "propagator/run/train.h"
#include "tasks/training.h"
#include "testing.h"

namespace propagator::tasks {
namespace {

using testing::kDouble;
using testing::prepared_model;
using torch::Tensor;

run::Experiment rod_with(
    const std::string& more,
    const std::string& model = "pinn, width: 12, layers: 2",
    int64_t sensors = 40) {
  auto document = config::Document::from_text(
      "task: reconstruct\nprecision: fp64\nproblem:\n"
      "  domain: ['x in [0, 1]', 't in [0, 1]']\n  fields: u\n"
      "  equations: [u_t = 0.1*u_xx]\n"
      "  exact: [u = 3 + exp(-0.1*pi^2*t)*sin(pi*x)]\n"
      "sensors: {count: " +
          std::to_string(sensors) +
          "}\n"
          "model: {name: " +
          model +
          "}\n"
          "points: {per_axis: 8, validation_per_axis: 5}\neval: {per_axis: "
          "20}\n" +
          more,
      "test");
  return run::Experiment(document);
}

TEST(TasksReconstruct, AFieldIsRebuiltFromReadingsAndItsEquationAlone) {
  const testing::TemporaryFolder folder;
  const auto e = rod_with("train: {max_steps: 40, checkpoint_every: 40}\n");
  const auto checkpoint =
      testing::trained_to(40, e, kDouble, folder / "run", {});
  const auto model = e.make_model(kDouble);
  run::set_weights(e.task(), *model, checkpoint.best, "test");
  const auto numbers = e.task().evaluate(*model, data::Split::kTest).numbers;
  // The field goes from 3 to 4: 3 everywhere is off by 0.15.
  EXPECT_LT(numbers.at("relative_l2").get<double>(), 3e-3) << numbers;
  EXPECT_LT(numbers.at("held_out_fit").at("error").at("u").get<double>(), 0.03);
}

TEST(TasksReconstruct, ARunAnswersFromItsFolderAlone) {
  for (const std::string model :
       {"pinn, width: 12, layers: 2",
        "pgt, width: 8, heads: 2, layers: 1, decoder_width: 8",
        "pgt, width: 8, heads: 2, layers: 1, decoder_width: 8}\n"
        "loss: {readings: heteroscedastic",
        "pgt, width: 8, heads: 2, layers: 1, decoder_width: 8}\n"
        "loss: {readings: faithful"}) {
    const testing::TemporaryFolder folder;
    const auto e =
        rod_with("train: {max_steps: 3}\nreport: {page: no}\n", model);
    Observer silent;
    run::train(e, folder / "run", false, silent);
    const auto run = run::open(folder / "run");
    const auto x = torch::rand({5}, torch::kFloat64);
    const auto answers = run.apply({{"x", x}, {"t", x}});
    // In the size of the readings: what it takes from them is in the folder.
    EXPECT_NEAR(answers.at("u").mean().item<double>(), 3.5, 0.5) << model;
  }
}

TEST(TasksReconstruct, ItsDataTermIsTheMeanSquareInUnitsOfTheSpread) {
  const auto e = rod_with("");
  const auto model = prepared_model(e);
  const auto loss =
      e.task().loss(*model, data::Split::kTrain,
                    torch::arange(e.task().size(data::Split::kTrain)));
  ASSERT_EQ(loss.terms.back().name, "data");
  const auto sensors =
      sensors_of_solution(dynamic_cast<const Solve&>(e.task()).problem(),
                          {.count = 40}, {0}, 0)
          .training;
  const auto u = sensors.readings.select(1, 0);
  const auto answers = models::as_field_net(*model)
                           .values(sensors.points.unsqueeze(1))
                           .flatten();
  const auto expected = (answers - u).square().mean() / u.var(0, false);
  EXPECT_TRUE(testing::near(loss.terms.back().value, expected, {0, 1e-12}));
}

TEST(TasksReconstruct, ANewModelAnswersInTheSizeOfTheReadings) {
  const auto e = rod_with("");
  const auto model = prepared_model(e);
  e.task().calibrate(*model);
  const auto answers = models::as_field_net(*model).values(
      torch::rand({50, 1, 2}, torch::kFloat64));
  EXPECT_NEAR(answers.mean().item<double>(), 3.4, 0.5);
}

TEST(TasksReconstruct, AVarianceIsPredictedBesideEachFieldThatIsRead) {
  const auto e = rod_with("loss: {readings: heteroscedastic}\n");
  const auto model = prepared_model(e);
  const auto answers = models::as_field_net(*model).values(
      torch::rand({7, 1, 2}, torch::kFloat64));
  EXPECT_EQ(answers.size(-1), 2);
  const auto all = torch::arange(e.task().size(data::Split::kTrain));
  const auto loss = e.task().loss(*model, data::Split::kTrain, all);
  // By hand: the mean of log variance + error² / variance.
  const auto sensors =
      sensors_of_solution(dynamic_cast<const Solve&>(e.task()).problem(),
                          {.count = 40}, {0}, 0)
          .training;
  const auto u = sensors.readings.select(1, 0);
  const auto at = models::as_field_net(*model)
                      .values(sensors.points.unsqueeze(1))
                      .squeeze(1);
  const auto logs = at.select(1, 1) - u.var(0, false).log();
  const auto squares = (at.select(1, 0) - u).square() / u.var(0, false);
  EXPECT_TRUE(testing::near(loss.terms.back().value,
                            (logs + squares * (-logs).exp()).mean(),
                            {0, 1e-12}));
  const auto numbers = e.task().evaluate(*model, data::Split::kTest).numbers;
  const auto& coverage = numbers.at("held_out_fit").at("coverage");
  EXPECT_LE(coverage.at("50").get<double>(), coverage.at("95").get<double>());
}

// What it is sure of is learned beside the field and never moves it.
TEST(TasksReconstruct, AFaithfulVarianceLeavesTheFieldAsMseMakesIt) {
  const auto gradients = [](const std::string& kind) {
    const auto e =
        rod_with("sensors.noise: 0.2\nloss: {readings: " + kind + "}\n");
    const auto model = prepared_model(e);
    const auto all = torch::arange(e.task().size(data::Split::kTrain));
    const auto total = e.task().loss(*model, data::Split::kTrain, all).total;
    total.backward();
    std::map<std::string, Tensor> found;
    for (const auto& item : model->named_parameters()) {
      if (item.value().grad().defined()) {
        found[item.key()] = item.value().grad().clone();
      }
    }
    return found;
  };
  const auto plain = gradients("mse"), faithful = gradients("faithful");
  for (const auto& [name, gradient] : plain) {
    EXPECT_TRUE(testing::near(faithful.at(name), gradient, {1e-12, 1e-14}))
        << name;
  }
  EXPECT_GT(faithful.size(), plain.size());
  EXPECT_FALSE(faithful.contains("spreads.level")) << "it is set, not trained";
}

// At every step, whatever it was before: 55 of 60 readings that did not train
// are in the interval of 90 %, the last of them on its edge.
TEST(TasksReconstruct, AFaithfulLevelIsThatOfHeldOutReadings) {
  constexpr int64_t kCount = 200, kHeldOut = 60, kInside = 55;
  const auto e = rod_with(
      "sensors: {noise: 0.2, held_out: 0.3}\nloss: {readings: faithful}\n",
      "pinn, width: 12, layers: 2", kCount);
  const auto model = prepared_model(e);
  auto level = model->named_parameters()["spreads.level"];
  const auto split = sensors_of_solution(
      dynamic_cast<const Solve&>(e.task()).problem(),
      {.count = kCount, .noise = 0.2, .held_out = 0.3}, {0}, 0);
  const auto u = split.held_out.readings.select(1, 0);
  ASSERT_EQ(u.size(0), kHeldOut);
  const auto all = torch::arange(e.task().size(data::Split::kTrain));
  for (const double before : {-5.0, 2.0}) {
    {
      const torch::NoGradGuard no_grad;
      level.fill_(before);
    }
    e.task().loss(*model, data::Split::kTrain, all).total.backward();
    const torch::NoGradGuard no_grad;
    const auto at = models::as_field_net(*model)
                        .values(split.held_out.points.unsqueeze(1))
                        .squeeze(1);
    const auto deviations =
        (at.select(1, 0) - u).abs() / (0.5 * at.select(1, 1)).exp();
    const auto sorted = std::get<0>(deviations.sort());
    EXPECT_NEAR(sorted[kInside - 1].item<double>(), 1.6448536269514722, 1e-9);
  }
}

TEST(TasksReconstruct, AFaithfulVarianceFindsTheNoiseAndCoversNewReadings) {
  const testing::TemporaryFolder folder;
  const auto e = rod_with(
      "sensors: {noise: 0.2, held_out: 0.3}\nloss: {readings: faithful}\n"
      "train: {max_steps: 400, checkpoint_every: 400}\n"
      "optimizer: {kind: muon}\nschedule: {kind: cosine, lr: 0.05}\n",
      "pinn, width: 12, layers: 2", 400);
  const auto checkpoint =
      testing::trained_to(400, e, kDouble, folder / "run", {});
  const auto model = e.make_model(kDouble);
  run::set_weights(e.task(), *model, checkpoint.best, "test");
  const auto numbers = e.task().evaluate(*model, data::Split::kTest).numbers;
  const auto& fit = numbers.at("new_fit");
  EXPECT_EQ(fit.at("readings"), 400);
  EXPECT_NEAR(fit.at("error").at("u").get<double>(), 0.2, 0.03) << fit;
  EXPECT_NEAR(fit.at("coverage").at("90").get<double>(), 0.9, 0.06) << fit;
  EXPECT_NEAR(fit.at("coverage").at("50").get<double>(), 0.5, 0.1) << fit;
}

TEST(TasksReconstruct, AModelThatIsFittedHasNoFaithfulVariance) {
  const auto message = testing::thrown<ConfigError>(
      [] { rod_with("loss: {readings: faithful}\n", "gaussian_process"); });
  EXPECT_NE(message.find("this model is not"), std::string::npos) << message;
}

TEST(TasksReconstruct, PredictGivesDeviationsInUnitsOfTheReadings) {
  const testing::TemporaryFolder folder;
  const auto e = rod_with(
      "sensors.noise: 0.5\nloss: {readings: heteroscedastic}\n"
      "report: {page: no}\n",
      "gaussian_process");
  Observer silent;
  run::train(e, folder / "run", false, silent);
  const auto run = run::open(folder / "run");
  const auto x = torch::rand({50}, torch::kFloat64);
  const auto answers = run.apply({{"x", x}, {"t", x}});
  // The field's own deviation is about 0.26, and noise is half of that.
  const double mean = answers.at("u_deviation").mean().item<double>();
  EXPECT_GT(mean, 0.08);
  EXPECT_LT(mean, 0.25);
  EXPECT_GT(answers.at("u_deviation").min().item<double>(), 0);
}

TEST(TasksReconstruct, APressureIsComparedWithoutItsMean) {
  // p is named by its derivative alone.
  const std::string problem =
      "task: reconstruct\nprecision: fp64\nproblem:\n"
      "  domain: ['x in [0, 1]', 't in [0, 1]']\n  fields: u, p\n"
      "  equations: [u_t = -p_x, u_x = 0]\n"
      "  exact: [u = sin(t), p = 7 - x*cos(t)]\n"
      "model: {name: pinn, width: 8}\neval: {per_axis: 10}\n";
  for (const bool read : {false, true}) {
    const run::Experiment e(config::Document::from_text(
        problem + (read ? "sensors: {count: 20}\n"
                        : "sensors: {count: 20, fields: [u]}\n"),
        "test"));
    auto model = prepared_model(e);
    const auto evaluation = e.task().evaluate(*model, data::Split::kTest);
    const bool said =
        std::ranges::any_of(evaluation.remarks, [](const std::string& remark) {
          return remark.starts_with("p is known up to a function of time");
        });
    EXPECT_EQ(said, !read);
  }
}

TEST(TasksReconstruct, ANetworkThatAnswersFromReadingsSolvesNothing) {
  try {
    run::Experiment(config::Document::from_text(
        "task: solve\nproblem:\n  domain: ['x in [0, 1]']\n  fields: u\n"
        "  equations: [u_x = 1]\n  conditions: ['on x=0: u = 0']\n"
        "model: {name: pgt}\n",
        "test"));
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_NE(std::string(error.what()).find("pgt answers from readings"),
              std::string::npos)
        << error.what();
  }
  EXPECT_FALSE(all_tasks().at("solve").models.contains("pgt"));
  EXPECT_TRUE(all_tasks().at("reconstruct").models.contains("pgt"));
}

TEST(TasksReconstruct, AFieldThatTheProblemDoesNotHaveIsNotRead) {
  try {
    rod_with("sensors: {fields: [v]}\n");
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_NE(std::string(error.what()).find("the problem has no field v"),
              std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace propagator::tasks
