#include "propagator/train/step.h"

#include <torch/cuda.h>

#include "propagator/run/experiment.h"
#include "testing.h"

namespace propagator::train {
namespace {

using propagator::testing::near;

// The weights after some steps of a small model.
torch::Tensor weights_after(int64_t steps, const std::string& extra,
                            bool* is_graph = nullptr) {
  const run::Experiment experiment(
      config::Document::from_text("plate: {rows: 8, cols: 8, frames: 16}\n"
                                  "data: {cases: 40}\n"
                                  "model: {visible: 3, width: 32, layers: 2, "
                                  "heads: 4, feed_forward: 32}\n" +
                                      extra,
                                  "tiny"));
  const auto runtime = experiment.make_runtime();
  experiment.task().prepare(0, runtime);
  Step step(experiment.task(), experiment.make_model(runtime),
            {.batch = 4, .accumulate = 2, .clip = 0.5, .optimizer = {}},
            runtime);
  if (is_graph != nullptr) *is_graph = step.is_graph();
  data::BatchSampler sampler(experiment.task().size(data::Split::kTrain), 8, 0);
  for (int64_t n = 0; n < steps; ++n) {
    step.run(sampler.batch(n), 1e-3 / static_cast<double>(n + 1));
  }
  const auto record = step.read();
  EXPECT_EQ(record.loss.terms.size(), 4u);
  EXPECT_GT(record.gradient_norm, 0);
  return step.parameters().values().cpu();
}

TEST(TrainStep, DataInMemoryAndStreamedGiveTheSameBits) {
  EXPECT_TRUE(
      torch::equal(weights_after(5, "device: cpu\ndata.storage: memory\n"),
                   weights_after(5, "device: cpu\ndata.storage: stream\n")));
}

TEST(TrainStep, AGraphGivesWhatItsOperationsGive) {
  if (!torch::cuda::is_available()) GTEST_SKIP() << "no CUDA device";
  for (const std::string mask : {"block", "causal"}) {
    const auto model = "device: cuda\nmodel.mask: " + mask + "\n";
    bool graph = false, plain = true;
    const auto replayed =
        weights_after(12, model + "data.storage: memory\n", &graph);
    const auto eager =
        weights_after(12, model + "data.storage: stream\n", &plain);
    EXPECT_TRUE(graph);
    EXPECT_FALSE(plain);
    EXPECT_TRUE(near(replayed, eager, {1e-5, 1e-6})) << mask;
  }
}

}  // namespace
}  // namespace propagator::train
