#include <torch/nn/modules/linear.h>
#include <torch/utils.h>

#include <sstream>

#include "propagator/core/files.h"
#include "propagator/nn/init.h"
#include "propagator/train/redrawable.h"
#include "propagator/train/trainer.h"
#include "testing.h"

namespace propagator::train {
namespace {

using propagator::testing::random;
using propagator::testing::TemporaryFolder;

// Fits a line to a parabola, and may have other points to offer. After some
// evaluations its gradient points the wrong way: no step lowers it then.
class ScatteredTask : public Trainable, public Redrawable {
 public:
  explicit ScatteredTask(bool others) : others_(others) {}

  int64_t size(data::Split) const override { return 16; }
  Loss loss(torch::nn::Module& model, data::Split,
            const torch::Tensor& positions) override {
    const auto x = inputs_.index_select(0, positions);
    const auto fit =
        (dynamic_cast<torch::nn::LinearImpl&>(model).forward(x) - x.square())
            .square()
            .mean();
    const bool wrong = torch::GradMode::is_enabled() && ++evaluations_ > 5;
    return {wrong ? 2 * fit.detach() - fit : fit, {{"fit", 1, fit.detach()}}};
  }
  bool redraw(torch::nn::Module&, int64_t step) override {
    if (!others_) return false;
    steps.push_back(step);
    return true;
  }
  std::vector<int64_t> steps;  // that it was asked in

 private:
  bool others_;
  int64_t evaluations_ = 0;
  torch::Tensor inputs_ = random({16, 1}, "inputs").to(torch::kFloat32);
};

struct Ended {
  StopReason reason;
  std::vector<int64_t> iterations, evaluations;  // of each step
};

Ended trained(ScatteredTask& task) {
  TrainOptions options;
  options.optimizer.kind = OptimizerKind::kBroyden;
  options.broyden.iterations = 2;
  options.batch = 0;
  options.max_steps = 200;
  options.log_every = 1;
  const auto model = torch::nn::Linear(1, 1).ptr();
  nn::initialise(*model, 1);
  Trainer trainer(task, model, options, 1, Runtime{}, "seed: 1\n");
  const TemporaryFolder folder;
  auto run = RunDirectory::create(folder / "a", false, "");
  Ended ended{trainer.run(run), {}, {}};
  std::istringstream lines(read_file(folder / "a" / "metrics.jsonl"));
  for (std::string line; std::getline(lines, line);) {
    const auto parsed = nlohmann::json::parse(line);
    if (parsed.at("kind") != "train") continue;
    ended.iterations.push_back(parsed.at("iterations"));
    ended.evaluations.push_back(parsed.at("evaluations"));
  }
  return ended;
}

// At the minimum no step lowers the loss. The run goes on for longer where
// there are other points, and says of each step what it has done.
TEST(TrainRedraw, AStepThatFailsAsksForOtherPoints) {
  ScatteredTask same(false), others(true);
  const auto short_one = trained(same), long_one = trained(others);
  EXPECT_EQ(short_one.reason, StopReason::kEarlyStop);
  EXPECT_EQ(long_one.reason, StopReason::kEarlyStop);
  EXPECT_GT(long_one.iterations.size(), short_one.iterations.size() + 4);
  EXPECT_TRUE(same.steps.empty());
  ASSERT_FALSE(others.steps.empty());
  EXPECT_EQ(others.steps.back(), std::ssize(long_one.iterations) - 1);
  EXPECT_GT(long_one.iterations.front(), 0);
  EXPECT_EQ(long_one.iterations.back(), 0);
  for (size_t n = 0; n < long_one.iterations.size(); ++n) {
    EXPECT_GT(long_one.evaluations[n], long_one.iterations[n]);
  }
}

}  // namespace
}  // namespace propagator::train
