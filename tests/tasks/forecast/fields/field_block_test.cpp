// Forecasts of all later frames at once, and those that are told constant
// inputs.

#include <torch/optim/adam.h>
#include <torch/utils.h>

#include <set>

#include "propagator/core/error.h"
#include "propagator/tasks/explainable.h"
#include "propagator/tasks/forecast/fields/field_symmetry.h"
#include "tasks/forecast/fields/field_waves.h"

namespace propagator::tasks {
namespace {

using data::Split;
using testing::kDouble;
using testing::random;
using torch::Tensor;

using TasksFieldBlock = FieldWaves;

// All later frames at once: six of eight, from the file, as a run of its own.
TEST_F(TasksFieldBlock, ABlockMaskForecastsAllLaterFramesAtOnce) {
  const std::string block =
      "model: {name: space_time, mask: block, width: 8, layers: 1, patch: 4}\n";
  const auto e = experiment(waves(true), block);
  EXPECT_EQ(e.schema().find("loss.frames")->get(), "6");
  EXPECT_EQ(e.schema().find("eval.steps")->get(), "6");
  const auto model = testing::prepared_model(e);
  e.task().calibrate(*model);
  EXPECT_EQ(e.task().size(Split::kTrain), 14);  // a window of each case
  const auto loss =
      e.task().loss(*model, Split::kTrain, torch::arange(8)).total;
  EXPECT_GT(loss.item<double>(), 0);
  const auto r = e.task().evaluate(*model, Split::kTest).numbers;
  EXPECT_EQ(r.at("forecast_frames"), 6);
  EXPECT_TRUE(std::isfinite(r.at("one_step").at("nrmse").get<double>()));
  auto& task = dynamic_cast<Explainable&>(e.task());
  const auto subject = task.audit_subject(*model);
  auto hidden = subject->inputs.clone();
  hidden.slice(1, 2).fill_(std::nan(""));
  for (const auto& path : subject->paths) {
    EXPECT_TRUE(torch::equal(path.answer(hidden).at("fields"),
                             path.answer(subject->inputs).at("fields")));
  }
  EXPECT_EQ(subject->forward(subject->inputs).size(1), 6);
  EXPECT_EQ(subject->first_hidden(5), 2);
  EXPECT_FALSE(task.step_subject(*model)->repeated);
  const auto answer = e.task()
                          .surrogate(model, kDouble)
                          ->apply({{"fields", random({3, 2, 16, 1}, "given")},
                                   {"speed", torch::full({3}, 0.03)}});
  EXPECT_EQ(answer.at("fields").sizes(), (std::vector<int64_t>{3, 8, 16, 1}));
}

TEST_F(TasksFieldBlock, ABlockMaskForecastsAsManyFramesAsItWasTrainedFor) {
  const std::string block = "model: {name: fno, mask: block, width: 4}\n";
  const auto e = experiment(waves(false), block + "loss: {frames: 4}\n");
  EXPECT_EQ(e.schema().find("eval.steps")->get(), "4");
  EXPECT_NE(testing::thrown<ConfigError>([&] {
              experiment(waves(false), block +
                                           "loss: {frames: 4}\n"
                                           "eval: {steps: 5}\n");
            }).find("forecasts the 4 frames that it is trained to answer"),
            std::string::npos);
  const auto unused =
      experiment(waves(false), block + "loss: {inputs: own}\n").remarks({});
  ASSERT_FALSE(unused.empty());
  EXPECT_NE(unused[0].find("loss.inputs has no effect"), std::string::npos);
  EXPECT_THROW(
      experiment(waves(false), "model: {name: conv_lstm, mask: block}"),
      ConfigError);
  // What is there without a mask is as it was.
  EXPECT_EQ(experiment(waves(false)).schema().find("loss.frames")->get(), "1");
}

TEST_F(TasksFieldBlock, BlockModelsLearnAndResumeWithTheSameBits) {
  for (const char* name : {"space_time, patch: 4", "fno, modes: 3"}) {
    const auto more = fmt::format(
        "model: {{name: {}, mask: block, width: 6, layers: 1}}\n", name);
    const testing::TemporaryFolder runs;
    const auto file = waves(true);
    const auto whole = testing::trained_to(6, experiment(file, more), kDouble,
                                           runs / "whole", {});
    const auto resumed = testing::trained_to(
        6, experiment(file, more), kDouble, runs / "resumed",
        train::checkpoint_path(runs.path() / "whole/checkpoints", 3));
    for (const auto& [key, value] : whole.model) {
      EXPECT_TRUE(torch::equal(value, resumed.model.at(key))) << key;
    }
  }
}

// u grows by k(x) from frame to frame: k decides all of it.
class TasksConstantInputs : public FieldWaves {
 protected:
  std::string growth(bool mirrored = false) {
    const auto path = folder_ / (mirrored ? "mirrored.h5" : "growth.h5");
    const auto k = random({20, 16}, "k");
    const auto t = torch::arange(8, torch::kFloat64).view({1, 8, 1});
    const auto u = random({20, 1, 16}, "u") + t * k.unsqueeze(1);
    data::save_tensors(path, {{{"u", mirrored ? u.flip(2) : u},
                               {"k", mirrored ? k.flip(1) : k}},
                              ""});
    return path.string();
  }
};

TEST_F(TasksConstantInputs, AreToldAndNotForecast) {
  std::map<bool, double> errors;
  for (const bool told : {true, false}) {
    auto document = config::Document::from_text(
        "task: forecast\nprecision: fp64\n"
        "data: {given: 1, file: " +
            growth() + "}\nmodel: {name: cnn, width: 8, layers: 1, reach: 1}\n",
        "test");
    if (!told) document.override_with("data.constants=[none]");
    const run::Experiment e(document);
    EXPECT_EQ(e.schema().find("data.constants")->get(), told ? "k" : "none");
    const auto model = testing::prepared_model(e);
    e.task().calibrate(*model);
    torch::optim::Adam optimizer(model->parameters(), 0.02);
    const auto all = torch::arange(e.task().size(Split::kTrain));
    for (int n = 0; n < 80; ++n) {
      optimizer.zero_grad();
      e.task().loss(*model, Split::kTrain, all).total.backward();
      optimizer.step();
    }
    const auto r = e.task().evaluate(*model, Split::kTest).numbers;
    errors[told] = r.at("nrmse");
    EXPECT_EQ(r.at("nrmse_per_channel").size(), 1u);
    for (const auto& [name, row] : r.at("baselines").items()) {
      EXPECT_EQ(row.at("nrmse_per_channel").size(), 1u) << name;
    }
  }
  EXPECT_LT(errors[true], 0.1 * errors[false]);
}

TEST_F(TasksConstantInputs, AreAskedForByTheirNames) {
  const auto file = growth();
  const auto e = experiment(file, kSmall);
  const auto model = testing::prepared_model(e);
  e.task().calibrate(*model);
  std::filesystem::remove(file);
  const run::Experiment again(
      config::Document::from_text(e.yaml(), "config.yaml"));
  EXPECT_EQ(again.make_model(kDouble)->named_parameters().size(),
            model->named_parameters().size());
  const auto surrogate = again.task().surrogate(model, kDouble);
  ASSERT_EQ(surrogate->inputs().size(), 2u);
  EXPECT_EQ(surrogate->inputs()[1].name, "k");
  EXPECT_EQ(surrogate->inputs()[1].shape, (std::vector<int64_t>{-1, -1}));
  const auto given = random({3, 2, 16, 1}, "given"), k = random({3, 16}, "one");
  const auto ask = [&](const Tensor& constant) {
    return surrogate->apply({{"fields", given}, {"k", constant}});
  };
  const auto answer = ask(k);
  EXPECT_EQ(answer.at("fields").sizes(), (std::vector<int64_t>{3, 8, 16, 1}));
  EXPECT_TRUE(torch::equal(answer.at("k"), k));
  EXPECT_TRUE(
      torch::equal(ask(k.unsqueeze(-1)).at("fields"), answer.at("fields")));
  EXPECT_FALSE(torch::equal(ask(k + 1).at("fields"), answer.at("fields")));
  const auto error = [&](const NamedTensors& inputs) {
    return testing::thrown<UsageError>([&] { surrogate->apply(inputs); });
  };
  EXPECT_NE(error({{"fields", given}}).find("'k'"), std::string::npos);
  EXPECT_NE(error({{"fields", given}, {"k", k.narrow(1, 0, 8)}})
                .find("expected 'k' of shape (3, 16)"),
            std::string::npos);
  EXPECT_NE(error({{"fields", given}, {"k", k / 0}}).find("not finite"),
            std::string::npos);
}

TEST_F(TasksConstantInputs, AnotherOneIsAnotherFile) {
  const auto e = experiment(growth(), kSmall);
  const auto model = testing::prepared_model(e);
  auto state = e.task().state();
  EXPECT_NO_THROW(e.task().restore(state));
  state.at("data") = state.at("data") + 1e-3;
  EXPECT_NE(testing::thrown<DataError>([&] {
              e.task().restore(state);
            }).find("not the file that the run was trained on"),
            std::string::npos);
  // A test file must have them too.
  EXPECT_NE(testing::thrown<ConfigError>([&] {
              experiment(growth(), "data.test_file: " + waves(false) + "\n");
            }).find("no k that does not change in time"),
            std::string::npos);
}

// From another side with their fields: a file that is mirrored whole shows the
// same two sides.
TEST_F(TasksConstantInputs, AreMirroredWithTheirFields) {
  const auto losses = [&](bool mirrored) {
    const auto e = experiment(growth(mirrored),
                              std::string(kSmall) + "data.symmetry: mirrors\n");
    const auto model = testing::prepared_model(e);
    e.task().calibrate(*model);
    std::set<int64_t> found;  // but for rounding
    for (int64_t step = 0; step < 12; ++step) {
      e.task().begin_step(*model, step);
      found.insert(std::llround(
          1e9 * e.task()
                    .loss(*model, Split::kTrain, torch::tensor({3}))
                    .total.item<double>()));
    }
    return found;
  };
  const auto found = losses(false);
  EXPECT_EQ(found.size(), 2u);
  EXPECT_EQ(found, losses(true));
}

}  // namespace
}  // namespace propagator::tasks
