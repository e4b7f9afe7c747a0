// Trainings that ranks share, as threads of this process.

#include <torch/nn/modules/linear.h>
#include <torch/utils.h>

#include <atomic>

#include "propagator/core/error.h"
#include "propagator/core/files.h"
#include "propagator/core/random.h"
#include "propagator/nn/dropout.h"
#include "propagator/nn/init.h"
#include "propagator/train/trainer.h"
#include "testing.h"
#include "thread_ranks.h"

namespace propagator::train {
namespace {

using propagator::testing::on_ranks;
using propagator::testing::random;
using propagator::testing::TemporaryFolder;
using propagator::testing::thrown;

class Net : public torch::nn::Module {
 public:
  explicit Net(double dropout_rate)
      : first_(register_module("first", torch::nn::Linear(2, 8))),
        dropout_(register_module("dropout", nn::Dropout(dropout_rate))),
        last_(register_module("last", torch::nn::Linear(8, 1))) {}

  torch::Tensor forward(const torch::Tensor& x) {
    return last_(dropout_(torch::tanh(first_(x)))).squeeze(1);
  }

 private:
  torch::nn::Linear first_;
  nn::Dropout dropout_;
  torch::nn::Linear last_;
};

// Fits a product. Noise is drawn for each slice of a step.
class ProductTask : public Trainable {
 public:
  int64_t size(data::Split split) const override {
    return split == data::Split::kTrain ? 48 : 15;
  }
  void begin_step(torch::nn::Module&, int64_t step) override {
    step_ = step;
    slice_ = 0;
  }
  void begin_slice(int64_t slice) override { slice_ = slice; }
  Loss loss(torch::nn::Module& model, data::Split split,
            const torch::Tensor& positions) override {
    const auto x = inputs_.index_select(0, positions);
    auto y = x.select(1, 0) * x.select(1, 1);
    if (split == data::Split::kTrain) {
      ++batches;
      y = y + noise * RandomStream(3, "noise").uniform(step_, slice_);
    }
    const auto fit = (dynamic_cast<Net&>(model).forward(x) - y).square().mean();
    return {fit, {{"fit", 1, fit.detach()}}};
  }
  int batches = 0;
  double noise = 0.1;

 private:
  torch::Tensor inputs_ = random({48, 2}, "inputs").to(torch::kFloat32);
  int64_t step_ = 0, slice_ = 0;
};

class TrainRanks : public ::testing::Test {
 protected:
  TrainRanks() {
    options.max_steps = 12;
    options.batch = 10;
    options.slices = 4;
    options.clip = 0.1;
    options.validate_every = 4;
    options.checkpoint_every = 4;
    options.keep_checkpoints = 100;
    options.schedule.lr = 0.02;
  }

  // Trains in the run of that name, from one of its checkpoints if a step is
  // given, and returns the last checkpoint.
  Checkpoint train_on(int count, const std::string& name, int64_t from = 0) {
    on_ranks<int>(count, [&] {
      train(name, from);
      return 0;
    });
    return newest(name);
  }
  void train(const std::string& name, int64_t from) {
    train(name, from, options);
  }
  void train(const std::string& name, int64_t from,
             const TrainOptions& its_options) {
    ProductTask task;
    task.noise = dropout > 0 ? 0.1 : 0;
    const auto model = std::make_shared<Net>(dropout);
    nn::initialise(*model, 1);
    nn::seed_dropouts(*model, 1);
    Trainer trainer(task, model, its_options, 1, Runtime{}, "seed: 1\n");
    if (from > 0) {
      trainer.restore(load_checkpoint(
          checkpoint_path(folder / name / "checkpoints", from)));
    }
    auto run = !ranks().is_first() ? RunDirectory::of_another(folder / name)
               : from > 0          ? RunDirectory::open(folder / name)
                          : RunDirectory::create(folder / name, false, "");
    trainer.run(run);
    if (ranks().is_first()) batches_of_first = task.batches;
  }
  Checkpoint newest(const std::string& name) const {
    return load_checkpoint(
        list_checkpoints(folder / name / "checkpoints").back());
  }

  TemporaryFolder folder;
  TrainOptions options;
  double dropout = 0.2;
  std::atomic<int> batches_of_first = 0;
};

void expect_equal(const NamedTensors& got, const NamedTensors& expected,
                  const std::string& what) {
  EXPECT_EQ(got.size(), expected.size());
  for (const auto& [name, value] : expected) {
    EXPECT_TRUE(torch::equal(got.at(name), value)) << what << ": " << name;
  }
}

void expect_equal(const Checkpoint& got, const Checkpoint& expected,
                  const std::string& what) {
  expect_equal(got.model, expected.model, what);
  expect_equal(got.best, expected.best, what);
  expect_equal(got.optimizer, expected.optimizer, what);
  EXPECT_EQ(got.state.at("best"), expected.state.at("best")) << what;
}

TEST_F(TrainRanks, EveryOptimiserFindsTheSameBitsOnAnyNumber) {
  using enum OptimizerKind;
  for (const auto kind : {kAdam, kLamb, kMuon, kLbfgs, kBroyden}) {
    options.optimizer.kind = kind;
    options.optimizer.adam_steps = kind == kLbfgs ? 5 : 0;
    options.accumulate = is_full(kind) ? 1 : 2;
    dropout = is_full(kind) ? 0 : 0.2;
    const std::string name = config::name_of(kind);
    const auto one = train_on(1, name + "1");
    for (const int count : {2, 3, 4}) {
      const auto several = name + std::to_string(count);
      expect_equal(train_on(count, several), one, several);
    }
  }
}

TEST_F(TrainRanks, AnotherNumberGoesOnToTheSameBits) {
  const auto whole = train_on(1, "whole");
  train_on(4, "cut");
  expect_equal(train_on(2, "cut", 8), whole, "4 ranks, then 2");
  expect_equal(train_on(1, "cut", 4), whole, "4 ranks, then 1");
}

TEST_F(TrainRanks, EachComputesItsShare) {
  options.validate_every = 100;
  train_on(1, "one");
  EXPECT_EQ(batches_of_first, 12 * 4);
  train_on(4, "four");
  EXPECT_EQ(batches_of_first, 12);
}

// The mean over a batch is the mean over its slices, but for rounding.
TEST_F(TrainRanks, SlicesChangeNoGradientBeyondRounding) {
  dropout = 0;
  const auto cut = train_on(1, "cut");
  options.slices = 1;
  const auto whole = train_on(1, "whole");
  for (const auto& [name, value] : whole.model) {
    if (name == "dropout.state") continue;  // slices have draws of their own
    EXPECT_TRUE(
        propagator::testing::near(cut.model.at(name), value, {1e-4, 1e-5}))
        << name;
  }
}

TEST_F(TrainRanks, MoreThanSlicesAreRefused) {
  options.slices = 2;
  const auto said = thrown<ConfigError>([&] { train_on(3, "few"); });
  EXPECT_NE(said.find("cannot be shared by 3 ranks"), std::string::npos);
}

// A stop that one of them is asked for stops all, with one good checkpoint.
TEST_F(TrainRanks, OneRequestStopsAll) {
  class Stop : public Observer {
   public:
    bool stop_requested() override { return true; }
  };
  on_ranks<int>(3, [&] {
    Stop stop;
    Observer silent;
    const ObserverScope scope(ranks().rank() == 2 ? stop : silent);
    train("stopped", 0);
    return 0;
  });
  EXPECT_EQ(newest("stopped").state.at("step"), 1);
}

// What only one of them computes differently is found, not trained on.
TEST_F(TrainRanks, OtherWeightsOnOneAreFound) {
  const auto said = thrown<RuntimeError>([&] {
    on_ranks<int>(2, [&] {
      auto its_options = options;
      if (ranks().rank() == 1) its_options.schedule.lr = 0.03;
      train("odd", 0, its_options);
      return 0;
    });
  });
  EXPECT_NE(said.find("rank 1 has other weights than rank 0 at step 4"),
            std::string::npos)
      << said;
}

}  // namespace
}  // namespace propagator::train
