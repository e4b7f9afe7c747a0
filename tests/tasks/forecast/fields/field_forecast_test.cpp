#include "propagator/tasks/forecast/fields/field_forecast.h"

#include <torch/optim/adam.h>
#include <torch/utils.h>

#include <set>

#include "propagator/core/error.h"
#include "propagator/run/simulation.h"
#include "propagator/tasks/forecast/fields/field_baselines.h"
#include "propagator/tasks/forecast/fields/field_errors.h"
#include "tasks/forecast/fields/field_waves.h"
#include "testing.h"

namespace propagator::tasks {
namespace {

using data::Split;
using testing::kDouble;
using testing::near;
using testing::random;
using torch::Tensor;

// By hand, of two frames of two nodes.
TEST(TasksFieldErrors, AreTheMeasuresOfTheField) {
  const auto truth =
      torch::tensor({3.0, 5.0, 2.0, 2.0}, torch::kFloat64).view({1, 2, 2, 1});
  const auto error =
      torch::tensor({1.0, -1.0, 0.5, 0.5}, torch::kFloat64).view({1, 2, 2, 1});
  FieldErrors errors;
  errors.add(truth, truth + error);
  const auto r = errors.numbers({"u"});
  const double first = 1 / std::sqrt(17.0), second = 0.25;
  EXPECT_NEAR(r.at("nrmse"), (first + second) / 2, 1e-12);
  EXPECT_NEAR(r.at("vrmse"),
              (1 / std::sqrt(1 + 1e-7) + 0.5 / std::sqrt(1e-7)) / 2, 1e-6);
  EXPECT_NEAR(r.at("relative_l2"), std::sqrt(2.5 / 42), 1e-12);
  EXPECT_NEAR(r.at("rmse"), std::sqrt(2.5 / 4), 1e-12);
  EXPECT_NEAR(r.at("crmse"), std::sqrt(0.25 / 2), 1e-12);
  EXPECT_NEAR(r.at("nrmse_per_channel").at("u"), (first + second) / 2, 1e-12);
  EXPECT_NEAR(r.at("nrmse_geometric"), std::sqrt(first * second), 1e-12);
}

// A wave of one frequency is in one band, whole.
TEST(TasksFieldErrors, BandsAreByFrequency) {
  const auto at = torch::arange(64, torch::kFloat64) * (2 * M_PI / 64);
  const std::pair<double, const char*> waves[] = {
      {3, "low"}, {12, "middle"}, {20, "high"}};
  for (const auto& [k, band] : waves) {
    FieldErrors errors;
    const auto truth = torch::ones({1, 1, 64, 64, 1}, torch::kFloat64);
    errors.add(truth, truth + 0.1 * torch::cos(k * at).view({1, 1, 1, 64, 1}));
    const auto bands = errors.numbers({"u"}).at("bands");
    for (const auto& [other, name] : waves) {
      EXPECT_NEAR(bands.at(name).get<double>(),
                  std::string(name) == band ? 0.1 / std::sqrt(2.0) : 0, 1e-10);
    }
  }
}

TEST(TasksFieldErrors, CorrelationEndsWhereItFirstFalls) {
  const auto truth = random({1, 5, 16, 1}, "truth");
  auto answer = truth.clone();
  answer[0][2] = -answer[0][2];  // and right again after it
  EXPECT_EQ(correlated_frames(truth, answer).item<double>(), 2);
}

using TasksFieldForecast = FieldWaves;

TEST_F(TasksFieldForecast, LearnsWavesThatTravel) {
  const auto e =
      experiment(waves(false),
                 "model: {name: fno, width: 12, layers: 2, modes: 3}\n"
                 "schedule: {lr: 0.01}\n");
  const auto model = testing::prepared_model(e);
  e.task().calibrate(*model);
  torch::optim::Adam optimizer(model->parameters(), 0.01);
  const auto all = torch::arange(e.task().size(Split::kTrain));
  for (int n = 0; n < 150; ++n) {
    optimizer.zero_grad();
    e.task().loss(*model, Split::kTrain, all).total.backward();
    optimizer.step();
  }
  const auto r = e.task().evaluate(*model, Split::kTest).numbers;
  const double ours = r.at("nrmse");
  for (const auto& [name, row] : r.at("baselines").items()) {
    EXPECT_LT(3 * ours, row.at("nrmse").get<double>()) << name << r;
  }
  EXPECT_LE(r.at("one_step").at("nrmse").get<double>(), ours);
}

TEST_F(TasksFieldForecast, ResumesWithTheSameBits) {
  for (const char* loss :
       {"inputs: truth", "inputs: own", "inputs: own, noise: 0.1"}) {
    const auto more = std::string(kSmall) + "loss: {frames: 2, " + loss + "}\n";
    const testing::TemporaryFolder runs;
    const auto file = waves(true);
    const auto whole = testing::trained_to(6, experiment(file, more), kDouble,
                                           runs / "whole", {});
    const auto resumed = testing::trained_to(
        6, experiment(file, more), kDouble, runs / "resumed",
        train::checkpoint_path(runs.path() / "whole/checkpoints", 3));
    for (const auto& [name, value] : whole.model) {
      EXPECT_TRUE(torch::equal(value, resumed.model.at(name))) << name;
    }
  }
}

TEST_F(TasksFieldForecast, ATestSeesNothingBeyondTheGivenFrames) {
  const auto e = experiment(waves(true), kSmall);
  const auto model = testing::prepared_model(e);
  e.task().calibrate(*model);
  auto& task = dynamic_cast<Explainable&>(e.task());
  const auto subject = task.audit_subject(*model);
  ASSERT_TRUE(subject);
  EXPECT_EQ(subject->visible, 2);
  const auto answer = [&](const Tensor& inputs) {
    return subject->paths[0].answer(inputs).at("fields");
  };
  auto hidden = subject->inputs.clone();
  hidden.slice(1, 2).fill_(std::nan(""));
  EXPECT_TRUE(torch::equal(answer(subject->inputs), answer(hidden)));
  auto given = subject->inputs.clone();
  given.select(1, 1).add_(0.1);
  EXPECT_FALSE(torch::equal(answer(subject->inputs), answer(given)));
}

TEST_F(TasksFieldForecast, ARunWithoutItsFileStillPredicts) {
  const auto file = waves(true);
  const auto e = experiment(file, kSmall);
  const auto model = testing::prepared_model(e);
  e.task().calibrate(*model);
  const auto given = random({3, 2, 16, 1}, "given");
  const NamedTensors inputs{{"fields", given},
                            {"speed", torch::full({3}, 0.03)}};
  const auto answer = e.task().surrogate(model, kDouble)->apply(inputs);
  EXPECT_EQ(answer.at("fields").sizes(), (std::vector<int64_t>{3, 8, 16, 1}));
  EXPECT_TRUE(torch::equal(answer.at("fields").narrow(1, 0, 2), given));
  std::filesystem::remove(file);
  const run::Experiment again(
      config::Document::from_text(e.yaml(), "config.yaml"));
  const auto same = again.make_model(kDouble);
  EXPECT_EQ(same->named_parameters().size(), model->named_parameters().size());
  const auto surrogate = again.task().surrogate(same, kDouble);
  EXPECT_EQ(surrogate->apply(inputs).at("fields").sizes(),
            (std::vector<int64_t>{3, 8, 16, 1}));
  EXPECT_THROW(surrogate->apply({{"fields", given}}), UsageError);
  EXPECT_THROW(surrogate->apply({{"fields", given.narrow(1, 0, 1)},
                                 {"speed", torch::full({3}, 0.03)}}),
               UsageError);
}

TEST_F(TasksFieldForecast, IsToldTheNumbersThatAreAskedFor) {
  const auto file = waves(true);
  const auto inputs_of = [&](const std::string& more) {
    const auto e = experiment(file, kSmall + more);
    const auto model = testing::prepared_model(e);
    e.task().calibrate(*model);
    e.task().evaluate(*model, Split::kTest);
    return e.task().surrogate(model, kDouble)->inputs().size();
  };
  EXPECT_EQ(inputs_of(""), 2);
  EXPECT_EQ(inputs_of("data.parameters: [speed]\n"), 2);
  EXPECT_EQ(inputs_of("data.parameters: [none]\n"), 1);
  EXPECT_NE(testing::thrown<ConfigError>([&] {
              experiment(file, "data.parameters: [spede]\n");
            }).find("the file has no numbers spede"),
            std::string::npos);
}

// A file that a simulator is to write decides the model before it is there.
TEST_F(TasksFieldForecast, ASimulationIsKnownBeforeItIsComputed) {
  const auto e =
      experiment((folder_ / "later.h5").string(),
                 "data.simulator: gray-scott\n"
                 "data.simulation: [field.points=16, field.frames=9]\n");
  EXPECT_EQ(e.schema().find("data.channels")->get(), "u\nv");
  EXPECT_EQ(e.schema().find("data.boundaries")->get(), "periodic\nperiodic");
  EXPECT_EQ(e.schema().find("eval.steps")->get(), "7");
  EXPECT_EQ(e.schema().find("model.modes")->get(), "8");
  EXPECT_NO_THROW(e.make_model(kDouble));
  EXPECT_NE(testing::thrown<ConfigError>([&] {
              experiment((folder_ / "later.h5").string(),
                         "data.simulator: blobs\n"
                         "data.simulation: [field.pints=16]\n");
            }).find("field.pints"),
            std::string::npos);
}

// It is on what is seen, and not on what is to be answered; another with each
// step, the same with the same step.
TEST_F(TasksFieldForecast, NoiseIsOfTheStepAndForTrainingAlone) {
  const auto loss_of = [&](const char* noise, int64_t step, Split split) {
    const auto e = experiment(
        waves(false), std::string(kSmall) + "loss: {noise: " + noise + "}\n");
    const auto model = testing::prepared_model(e);
    e.task().calibrate(*model);
    e.task().begin_step(*model, step);
    return e.task().loss(*model, split, torch::arange(8)).total.item<double>();
  };
  const auto train = Split::kTrain, validation = Split::kValidation;
  EXPECT_NE(loss_of("0", 1, train), loss_of("0.1", 1, train));
  EXPECT_EQ(loss_of("0.1", 1, train), loss_of("0.1", 1, train));
  EXPECT_NE(loss_of("0.1", 2, train), loss_of("0.1", 1, train));
  EXPECT_EQ(loss_of("0", 1, validation), loss_of("0.1", 1, validation));
}

// Two frames of two cases on 2 x 3 nodes, by hand.
TEST(TasksSymmetricViews, ShowAFieldFromAllSides) {
  const SymmetricViews mirrors(FieldSymmetry::kMirrors, {2, 3}, torch::kCPU);
  EXPECT_EQ(mirrors.count(), 4);
  const auto x = random({4, 2, 2, 3, 2}, "x");
  const auto seen = mirrors.of(x, torch::arange(4, 8));
  EXPECT_TRUE(torch::equal(seen[0], x[0]));
  EXPECT_TRUE(torch::equal(seen[1], x[1].flip({1})));
  EXPECT_TRUE(torch::equal(seen[2], x[2].flip({2})));
  EXPECT_TRUE(torch::equal(seen[3], x[3].flip({1, 2})));
  const SymmetricViews square(FieldSymmetry::kSquare, {3, 3}, torch::kCPU);
  EXPECT_EQ(square.count(), 8);
  const auto y = random({1, 2, 3, 3, 1}, "y").expand({8, 2, 3, 3, 1});
  const auto all = square.of(y, torch::arange(8));
  EXPECT_TRUE(torch::equal(all[4], y[4].transpose(1, 2)));
  for (int64_t a = 0; a < 8; ++a) {
    for (int64_t b = 0; b < a; ++b) EXPECT_FALSE(torch::equal(all[a], all[b]));
  }
  EXPECT_EQ(
      SymmetricViews(FieldSymmetry::kSquare, {2, 2, 2}, torch::kCPU).count(),
      48);
}

// A network that moves with its input answers to the mirrored case with the
// mirrored answer only if it has learned it: the loss is another, and each step
// has another side first.
TEST_F(TasksFieldForecast, TrainingSeesCasesFromAllSides) {
  const auto e = experiment(waves(false),
                            std::string(kSmall) + "data.symmetry: mirrors\n");
  const auto model = testing::prepared_model(e);
  e.task().calibrate(*model);
  std::set<double> losses;
  for (int64_t step = 0; step < 12; ++step) {
    e.task().begin_step(*model, step);
    losses.insert(e.task()
                      .loss(*model, Split::kTrain, torch::tensor({3}))
                      .total.item<double>());
  }
  EXPECT_EQ(losses.size(), 2);
  EXPECT_NE(testing::thrown<ConfigError>([&] {
              experiment(waves(true), "data.symmetry: mirrors\n");
            }).find("another speed"),
            std::string::npos);
  const auto path = (folder_ / "oblong.h5").string();
  data::save_tensors(path, {{{"u", random({10, 8, 16, 12}, "u")}}, ""});
  EXPECT_NE(testing::thrown<ConfigError>([&] {
              experiment(path, "data.symmetry: square\n");
            }).find("axes of 16, 12 nodes cannot be swapped"),
            std::string::npos);
}

TEST_F(TasksFieldForecast, SharesAreOfAllCases) {
  const auto e = experiment(waves(false), std::string(kSmall) +
                                              "data.validation: 0.1\n"
                                              "data.test: 0.3\n");
  e.task().prepare(0, kDouble);
  EXPECT_EQ(e.task().size(Split::kTrain), 12 * 6);
  EXPECT_EQ(e.task().size(Split::kValidation), 2 * 6);
  EXPECT_EQ(e.task().size(Split::kTest), 6 * 6);
  EXPECT_NE(testing::thrown<ConfigError>([&] {
              experiment(waves(false),
                         "data.validation: 0.7\ndata.test: 0.3\n");
            }).find("leave nothing to train on"),
            std::string::npos);
  const auto none = experiment(waves(false), std::string(kSmall) +
                                                 "data.validation: 0.001\n"
                                                 "data.test: 0.12\n");
  EXPECT_NE(testing::thrown<DataError>([&] {
              none.task().prepare(0, kDouble);
            }).find("too few to have one for validation"),
            std::string::npos);
}

// Longer histories than those that are trained on, and nothing of the first
// file is left to test on.
TEST_F(TasksFieldForecast, AnotherFileMayBeTestedOn) {
  const auto simulated = [&](const std::string& test) {
    return experiment((folder_ / "ring.h5").string(),
                      std::string(kSmall) +
                          "data.simulator: advection\n"
                          "data.simulation: [field.cases=10, field.points=16, "
                          "field.frames=6]\n"
                          "data.test_file: " +
                          (folder_ / "ring-test.h5").string() + "\n" +
                          "data.test_simulation: [" + test + "]\n");
  };
  const auto e = simulated("field.cases=3, field.first=10, field.frames=9");
  EXPECT_EQ(e.schema().find("eval.steps")->get(), "7");
  run::provide_simulated_files(e.task(), "cpu");
  const auto model = testing::prepared_model(e);
  e.task().calibrate(*model);
  EXPECT_EQ(e.task().size(Split::kTrain), 8 * 4);
  const auto r = e.task().evaluate(*model, Split::kTest).numbers;
  EXPECT_EQ(r.at("cases"), 3);
  EXPECT_EQ(r.at("forecast_frames"), 7);
  EXPECT_EQ(e.task()
                .evaluate(*model, Split::kValidation)
                .numbers.at("forecast_frames"),
            4);
  // A run knows both files again.
  const auto state = e.task().state();
  EXPECT_NO_THROW(e.task().restore(state));
  auto other = state;
  other.at("test_data") = other.at("test_data") + 1;
  EXPECT_NE(testing::thrown<DataError>([&] {
              e.task().restore(other);
            }).find("ring-test.h5 is not the file"),
            std::string::npos);
  EXPECT_NE(testing::thrown<DataError>([&] {
              std::filesystem::remove(folder_ / "ring-test.h5");
              simulated("field.points=12");
            }).find("on 12 nodes"),
            std::string::npos);
  EXPECT_NE(testing::thrown<ConfigError>([&] {
              experiment(waves(false), "data.test_file: none.h5\n");
            }).find("there is no file none.h5"),
            std::string::npos);
}

TEST_F(TasksFieldForecast, RefusesWhatItCannotTrainOn) {
  EXPECT_NE(testing::thrown<ConfigError>([&] {
              experiment(waves(false), "loss: {frames: 9}\n");
            }).find("more than the 8 that cases have"),
            std::string::npos);
  EXPECT_NE(testing::thrown<ConfigError>([&] {
              experiment("none.h5");
            }).find("there is no file none.h5"),
            std::string::npos);
  const auto few = experiment(waves(false, 4), kSmall);
  EXPECT_NE(testing::thrown<DataError>([&] {
              few.task().prepare(0, kDouble);
            }).find("expected at least 10 cases"),
            std::string::npos);
  EXPECT_THROW(experiment(waves(false), "data.simulator: tea\n"), ConfigError);
}

// Fields that one matrix carries on: the linear baseline has no error.
TEST_F(TasksFieldForecast, TheLinearBaselineIsExactForLinearFields) {
  const auto basis = random({3, 16}, "basis");
  const double c = std::cos(0.3), s = std::sin(0.3);
  const auto turn = torch::tensor({{c, s, 0.0}, {-s, c, 0.0}, {0.0, 0.0, 0.9}},
                                  torch::kFloat64);
  auto state = random({20, 3}, "state");
  std::vector<Tensor> frames;
  for (int t = 0; t < 8; ++t) {
    frames.push_back(torch::matmul(state, basis));
    state = torch::matmul(state, turn);
  }
  const auto path = (folder_ / "linear.h5").string();
  data::save_tensors(path, {{{"u", torch::stack(frames, 1)}}, ""});
  const data::FieldSource source(path, {.boundaries = {"open"}});
  const data::FieldDataset data(source, source.split(0), kDouble);
  const LinearField linear(data, 2);
  const auto test = data.range(Split::kTest, 0, 2).frames;
  EXPECT_TRUE(near(linear(test.narrow(1, 0, 2), 6), test.narrow(1, 2, 6),
                   {1e-3, 2e-3}));
  FieldErrors errors;
  errors.add(test.narrow(1, 2, 6), linear(test.narrow(1, 0, 2), 6));
  EXPECT_LT(errors.nrmse(), 1e-3);
}

TEST_F(TasksFieldForecast, WindowsAreConsecutiveFramesOfOneCase) {
  const data::FieldSource source(waves(false), {.boundaries = {"periodic"}});
  const data::FieldDataset data(source, source.split(0), kDouble);
  EXPECT_EQ(data.windows(Split::kTrain, 3), 14 * 6);
  const auto got =
      data.windows_at(Split::kTrain, torch::tensor({0, 5, 6, 83}), 3).frames;
  const auto all = data.range(Split::kTrain, 0, 14).frames;
  const std::pair<int64_t, int64_t> places[] = {
      {0, 0}, {0, 5}, {1, 0}, {13, 5}};
  for (int64_t n = 0; n < 4; ++n) {
    const auto& [which, first] = places[n];
    EXPECT_TRUE(torch::equal(got[n], all[which].narrow(0, first, 3)));
  }
}

}  // namespace
}  // namespace propagator::tasks
