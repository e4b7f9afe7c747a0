#include "propagator/train/trainer.h"

#include <torch/nn/modules/linear.h>
#include <torch/utils.h>

#include <cmath>
#include <sstream>

#include "propagator/core/error.h"
#include "propagator/core/files.h"
#include "propagator/core/observer.h"
#include "propagator/nn/init.h"
#include "testing.h"

namespace propagator::train {
namespace {

using propagator::testing::near;
using propagator::testing::random;
using propagator::testing::TemporaryFolder;
using propagator::testing::thrown;

// Fits y = 2 x₀ - x₁ + 3 with a linear layer; a term can be made NaN, weights
// can be made heavy, and a hook is called at every batch.
class LineTask : public Trainable {
 public:
  std::shared_ptr<torch::nn::Module> make_model() const {
    torch::nn::Linear line(2, 1);
    if (ballast > 0) {
      line->register_parameter("ballast", torch::zeros({ballast}));
    }
    return line.ptr();
  }
  int64_t size(data::Split split) const override {
    return split == data::Split::kTrain ? 64 : 16;
  }
  Loss loss(torch::nn::Module& model, data::Split split,
            const torch::Tensor& positions) override {
    const auto x = inputs_.index_select(0, positions);
    const auto y = 2 * x.select(1, 0) - x.select(1, 1) + 3;
    const auto out =
        dynamic_cast<torch::nn::LinearImpl&>(model).forward(x).squeeze(1);
    const auto fit = (out - y).square().mean() - lowered;
    auto bad = torch::zeros({});
    if (split == data::Split::kTrain) {
      ++batches;
      if (batches == nan_at) bad = bad + std::nan("");
      if (on_batch) on_batch();
    }
    if (split == data::Split::kValidation && others_differ) {
      bad = bad + std::pow(batches, 3);
    }
    if (split == data::Split::kValidation && others_are_nan) {
      bad = bad + std::nan("");
    }
    return {fit + bad, {{"fit", 1, fit.detach()}, {"odd", 1, bad.detach()}}};
  }
  int batches = 0, nan_at = 0;
  int64_t ballast = 0;         // parameters that do nothing
  bool others_differ = false;  // from what is learned, more and more
  bool others_are_nan = false;
  double lowered = 0;
  std::function<void()> on_batch;

 private:
  torch::Tensor inputs_ = random({64, 2}, "inputs").to(torch::kFloat32);
};

class TrainTrainer : public ::testing::Test {
 protected:
  TrainTrainer() {
    options.max_steps = 40;
    options.batch = 8;
    options.log_every = 10;
    options.schedule.lr = 0.05;
  }
  std::unique_ptr<Trainer> make() {
    model = task.make_model();
    nn::initialise(*model, 1);
    return std::make_unique<Trainer>(task, model, options, 1, Runtime{},
                                     "seed: 1\n");
  }
  // Trains in the run of that name, new or opened again.
  StopReason run(Trainer& trainer, const std::string& name) {
    auto directory = fs::exists(folder / name)
                         ? RunDirectory::open(folder / name)
                         : RunDirectory::create(folder / name, false, "");
    return trainer.run(directory);
  }
  StopReason run(const std::string& name) { return run(*make(), name); }
  Checkpoint newest(const std::string& name) {
    return load_checkpoint(
        list_checkpoints(folder / name / "checkpoints").back());
  }

  TemporaryFolder folder;
  LineTask task;
  TrainOptions options;
  std::shared_ptr<torch::nn::Module> model;
};

TEST_F(TrainTrainer, FindsTheLine) {
  options.max_steps = 800;
  EXPECT_EQ(run("a"), StopReason::kFinished);
  const auto parameters = model->named_parameters();
  EXPECT_TRUE(
      near(parameters["weight"], torch::tensor({{2.0, -1.0}}), {0, 1e-3}));
  EXPECT_NEAR(parameters["bias"].item<double>(), 3, 1e-3);
}

TEST_F(TrainTrainer, ResumedRunHasTheSameBits) {
  options.checkpoint_every = 7;
  run("whole");
  const auto expected = newest("whole");
  // Interrupt after 21 steps by dropping what came later, twice over.
  options.keep_checkpoints = 100;
  run("cut");
  for (const int64_t step : {21, 35}) {
    const auto from = checkpoint_path(folder / "cut" / "checkpoints", step);
    auto trainer = make();
    trainer->restore(load_checkpoint(from));
    EXPECT_EQ(trainer->step(), step);
    run(*trainer, "cut");
    const auto got = newest("cut");
    EXPECT_EQ(got.state.at("step"), 40);
    for (const auto& [name, value] : expected.model) {
      EXPECT_TRUE(torch::equal(got.model.at(name), value)) << name;
    }
    for (const auto& [name, value] : expected.optimizer) {
      EXPECT_TRUE(torch::equal(got.optimizer.at(name), value)) << name;
    }
    EXPECT_EQ(got.state.at("best"), expected.state.at("best"));
  }
}

TEST_F(TrainTrainer, AnEpochOfLbfgsIsOneStepHoweverCasesAreParted) {
  options.optimizer.kind = OptimizerKind::kLbfgs;
  options.max_steps = 0;
  options.epochs = 3;
  options.batch = 2;
  EXPECT_EQ(make()->total_steps(), 3);
  options.optimizer.adam_steps = 1;  // steps of Adam are batches
  EXPECT_GT(make()->total_steps(), 3);
}

TEST_F(TrainTrainer, DoesNotWaitForTheDiskUnlessAskedTo) {
  task.ballast = 2'000'000;  // far longer to write than to train
  options.max_steps = 6;
  options.keep_checkpoints = 100;
  options.validate_every = 1;
  run("default");
  const auto written = [&](const std::string& name) {
    return list_checkpoints(folder / name / "checkpoints").size();
  };
  EXPECT_LT(written("default"), 6);
  EXPECT_EQ(newest("default").state.at("step"), 6);
  options.checkpoint_every = 1;
  run("asked");
  EXPECT_EQ(written("asked"), 6);
}

TEST_F(TrainTrainer, FullMethodsTakeOverFromAdamStopAndResumeToTheSameBits) {
  options.optimizer.adam_steps = 3;
  options.lbfgs.iterations = 1;
  options.broyden.iterations = 1;
  options.broyden.tolerance_gradient = 1e-4;
  options.batch = 0;
  options.max_steps = 200;
  options.checkpoint_every = 1;
  options.keep_checkpoints = 300;
  for (const auto kind : {OptimizerKind::kLbfgs, OptimizerKind::kBroyden}) {
    options.optimizer.kind = kind;
    const std::string whole = config::name_of(kind);
    EXPECT_EQ(run(whole), StopReason::kEarlyStop);  // it is at the minimum
    const auto expected = newest(whole);
    EXPECT_LT(expected.state.at("step"), 40);
    EXPECT_LT(expected.state.at("best").at("value"), 1e-7);
    for (const int64_t step : {2, 5, 6}) {
      auto trainer = make();
      trainer->restore(load_checkpoint(
          checkpoint_path(folder / whole / "checkpoints", step)));
      run(*trainer, "again");
      const auto got = newest("again");
      EXPECT_EQ(got.state.at("step"), expected.state.at("step"));
      for (const auto& [name, value] : expected.model) {
        EXPECT_TRUE(torch::equal(got.model.at(name), value)) << name;
      }
      fs::remove_all(folder / "again");
    }
  }
}

TEST_F(TrainTrainer, MetricsAreWholeAfterResume) {
  options.checkpoint_every = 10;
  options.keep_checkpoints = 100;
  run("a");
  auto trainer = make();
  trainer->restore(
      load_checkpoint(checkpoint_path(folder / "a" / "checkpoints", 20)));
  run(*trainer, "a");
  std::istringstream lines(read_file(folder / "a" / "metrics.jsonl"));
  std::vector<int64_t> steps;
  for (std::string line; std::getline(lines, line);) {
    const auto parsed = nlohmann::json::parse(line);
    if (parsed.at("kind") != "train") continue;
    steps.push_back(parsed.at("step"));
    EXPECT_TRUE(parsed.at("terms").contains("fit"));
    EXPECT_TRUE(parsed.contains("lr"));
  }
  EXPECT_EQ(steps, (std::vector<int64_t>{10, 20, 30, 40}));
}

TEST_F(TrainTrainer, WhatAKilledSessionLeftIsRemoved) {
  run("a");
  auto trainer = make();
  trainer->restore(newest("a"));
  for (const char* name : {".tmp-result.json-7", ".tmp-metrics.jsonl-7",
                           "checkpoints/.tmp-step-0000000050-7/state.json"}) {
    write_file_atomically(folder / "a" / name, "half");
  }
  // Another process may be writing a page.
  write_file_atomically(folder / "a" / ".tmp-report.html-8", "half");
  run(*trainer, "a");
  std::set<std::string> left;
  for (const auto& part : {folder / "a", folder / "a" / "checkpoints"}) {
    for (const auto& entry : fs::directory_iterator(part)) {
      const auto name = entry.path().filename().string();
      if (name.starts_with(".tmp-")) left.insert(name);
    }
  }
  EXPECT_EQ(left, std::set<std::string>{".tmp-report.html-8"});
}

TEST_F(TrainTrainer, NaNStopsAndNamesTermAndStep) {
  options.checkpoint_every = 5;
  task.nan_at = 13;
  auto trainer = make();
  const auto message = thrown<NumericalError>([&] { run(*trainer, "a"); });
  EXPECT_NE(message.find("'odd' is nan at step 13"), std::string::npos)
      << message;
  EXPECT_EQ(newest("a").state.at("step"), 10);  // the last good one
}

TEST_F(TrainTrainer, HintsAtNaNsAreThoseOfTheOptimiser) {
  options.validate_every = 2;
  options.lbfgs.iterations = 1;
  options.batch = 0;
  task.others_are_nan = true;
  const auto hint = [&](const std::string& name) {
    std::string text = "none";
    try {
      run(name);
    } catch (const NumericalError& error) {
      text = error.hint();
    }
    return text;
  };
  EXPECT_EQ(hint("adam"), "lower schedule.lr, or set train.clip=1");
  options.optimizer.kind = OptimizerKind::kLbfgs;
  EXPECT_EQ(hint("newton"),
            "another seed, other points or --precision fp64 may help");
}

TEST_F(TrainTrainer, AccumulatedGradientsEqualTheLargeBatch) {
  options.max_steps = 1;
  options.batch = 16;
  run("large");
  options.batch = 8;
  options.accumulate = 2;
  run("parts");
  for (const auto& [name, value] : newest("large").model) {
    EXPECT_TRUE(near(newest("parts").model.at(name), value, {1e-5, 1e-6}));
  }
}

TEST_F(TrainTrainer, ClippingBoundsTheUpdate) {
  // With no memory Adam moves by lr · g / (|g| + eps): a tiny clip and a large
  // eps make the update proportional to the clipped gradient.
  options.max_steps = 1;
  options.schedule.kind = ScheduleKind::kConstant;
  options.schedule.lr = 1;
  options.optimizer.beta1 = options.optimizer.beta2 = 0;
  options.optimizer.eps = 1;
  options.clip = 1e-3;
  auto trainer = make();
  const auto before = copy_parameters(*model);
  run(*trainer, "a");
  double square = 0;
  for (const auto& [name, value] : copy_parameters(*model)) {
    square += (value - before.at(name)).square().sum().item<double>();
  }
  EXPECT_NEAR(std::sqrt(square), 1e-3, 2e-6);
}

TEST_F(TrainTrainer, EarlyStopAfterPatience) {
  options.max_steps = 10000;
  options.schedule.kind = ScheduleKind::kConstant;
  options.schedule.lr = 0;  // no gain is possible
  options.validate_every = 5;
  options.patience = 3;
  auto trainer = make();
  EXPECT_EQ(run(*trainer, "a"), StopReason::kEarlyStop);
  EXPECT_EQ(trainer->step(), 20);  // the first counts as best
}

TEST_F(TrainTrainer, TimeLimitLeavesACheckpoint) {
  options.max_steps = 100'000'000;
  options.time_limit = 0.05;
  options.validate_every = 1'000'000;
  auto trainer = make();
  EXPECT_EQ(run(*trainer, "a"), StopReason::kTimeLimit);
  EXPECT_EQ(newest("a").state.at("step"), trainer->step());
}

// Another end than that of a time limit: the run is over, and is validated.
TEST_F(TrainTrainer, ASpentBudgetEndsTheTraining) {
  options.max_steps = 1'000'000'000;
  options.validate_every = options.max_steps;
  options.checkpoint_every = options.max_steps;
  options.budget = 0.3;
  const auto trainer = make();
  EXPECT_EQ(run(*trainer, "a"), StopReason::kEarlyStop);
  EXPECT_GE(trainer->seconds(), 0.3);
  EXPECT_EQ(trainer->best_step(), trainer->step());
  // What was spent before counts.
  const auto again = make();
  again->restore(newest("a"));
  EXPECT_EQ(run(*again, "a"), StopReason::kEarlyStop);
  EXPECT_EQ(again->step(), trainer->step());
  options.budget = again->seconds() + 0.1;
  const auto longer = make();
  longer->restore(newest("a"));
  run(*longer, "a");
  EXPECT_GT(longer->step(), trainer->step());
}

TEST_F(TrainTrainer, ARequestStopsAfterTheStepWithACheckpoint) {
  struct Impatient : Observer {
    explicit Impatient(const LineTask& line) : task(line) {}
    bool stop_requested() override { return task.batches == 9; }

    const LineTask& task;
    const ObserverScope scope{*this};
  } impatient(task);
  auto trainer = make();
  EXPECT_EQ(run(*trainer, "a"), StopReason::kRequest);
  EXPECT_EQ(trainer->step(), 9);
  EXPECT_EQ(newest("a").state.at("step"), 9);
}

TEST_F(TrainTrainer, BestModelIsKeptWhenLaterOnesAreWorse) {
  options.schedule.kind = ScheduleKind::kConstant;
  options.validate_every = 20;
  run("a");
  const auto good = newest("a");
  // Go on with a rate that ruins the weights.
  options.max_steps = 60;
  options.schedule.lr = 10;
  auto trainer = make();
  trainer->restore(good);
  run(*trainer, "a");
  const auto after = newest("a");
  EXPECT_EQ(after.state.at("best"), good.state.at("best"));
  EXPECT_FALSE(torch::equal(after.model.at("weight"), good.model.at("weight")));
  trainer->load_best();
  EXPECT_TRUE(torch::equal(model->named_parameters()["weight"].detach(),
                           good.best.at("weight")));
}

// What is logged while it lives.
struct Listener : Observer {
  void log(Level, const std::string& line) override { text << line << '\n'; }
  bool heard(const std::string& words) const {
    return text.str().find(words) != std::string::npos;
  }

  std::ostringstream text;
  const ObserverScope scope{*this};
};

TEST_F(TrainTrainer, SaysOnceThatItFitsNothingElse) {
  Listener listener;
  task.others_differ = true;
  options.schedule.kind = ScheduleKind::kConstant;
  options.validate_every = 20;
  options.max_steps = 140;
  run("a");
  EXPECT_TRUE(
      listener.heard("64 times the best, of step 20, while that of "
                     "training is small: the model fits"))
      << listener.text.str();
  EXPECT_FALSE(listener.heard("diverged"));
}

TEST_F(TrainTrainer, SaysOnceThatItMayHaveDiverged) {
  Listener listener;
  const auto& text = listener.text;
  options.schedule.kind = ScheduleKind::kConstant;
  options.validate_every = 20;
  run("a");
  EXPECT_FALSE(listener.heard("diverged"));
  // Go on with a rate that ruins the weights.
  options.max_steps = 140;
  options.schedule.lr = 1000;
  auto trainer = make();
  trainer->restore(newest("a"));
  run(*trainer, "a");
  EXPECT_EQ(trainer->best_step(), 40);
  const auto said =
      text.str().find("of step 40: the training may have diverged");
  ASSERT_NE(said, std::string::npos) << text.str();
  EXPECT_EQ(text.str().find("diverged", said + 40), std::string::npos);
}

// As minus a log likelihood may be: a little worse is not many times as much.
TEST_F(TrainTrainer, SaysNothingOfMultiplesOfANegativeLoss) {
  Listener listener;
  task.lowered = 1e7;
  task.others_differ = true;
  options.schedule.kind = ScheduleKind::kConstant;
  options.validate_every = 20;
  options.max_steps = 140;
  run("a");
  EXPECT_FALSE(listener.heard("times the best")) << listener.text.str();
}

TEST_F(TrainTrainer, OldCheckpointsAreRemoved) {
  options.checkpoint_every = 5;
  options.keep_checkpoints = 3;
  run("a");
  EXPECT_EQ(list_checkpoints(folder / "a" / "checkpoints").size(), 3u);
}

TEST_F(TrainTrainer, AStateThatLacksSomethingIsDamaged) {
  run("a");
  auto checkpoint = newest("a");
  checkpoint.state.erase("seconds");
  EXPECT_NE(thrown<DataError>([&] {
              make()->restore(checkpoint);
            }).find("state.json is damaged"),
            std::string::npos);
}

TEST_F(TrainTrainer, BatchLargerThanTheDataIsRefused) {
  options.batch = 65;
  EXPECT_THROW(make(), ConfigError);
}

}  // namespace
}  // namespace propagator::train
