// A training repeats bit for bit, and a resumed one goes on so, in every
// precision of a device.

#include <torch/cuda.h>

#include "tasks/training.h"
#include "testing.h"

namespace propagator::train {
namespace {

constexpr const char* kPlate =
    "task: forecast\n"
    "plate: {rows: 8, cols: 8, frames: 16}\n"
    "data: {cases: 40}\n"
    "model: {visible: 3, width: 32, layers: 2, heads: 4, feed_forward: 32}\n"
    "train: {batch: 4, max_steps: 6, checkpoint_every: 3, keep_checkpoints: 9, "
    "validate_every: 6}\n";

using Weights = std::map<std::string, torch::Tensor>;

class TrainBits : public ::testing::Test {
 protected:
  // After all steps, from the start or from a checkpoint.
  Weights trained(const std::string& name, const std::string& mask,
                  const Runtime& runtime,
                  const std::optional<std::filesystem::path>& from = {}) const {
    const run::Experiment experiment(config::Document::from_text(
        kPlate + ("model.mask: " + mask + "\n"), "plate"));
    const RuntimeScope scope(runtime, experiment.run().threads);
    const auto saved = testing::trained_to(6, experiment, runtime,
                                           folder_ / (mask + name), from);
    return {saved.model.begin(), saved.model.end()};
  }
  static void expect_same(const Weights& a, const Weights& b,
                          const std::string& what) {
    ASSERT_EQ(a.size(), b.size());
    for (const auto& [name, value] : a) {
      EXPECT_TRUE(torch::equal(value, b.at(name))) << name << " " << what;
    }
  }
  void expect_repeats(const torch::Device& device,
                      std::initializer_list<Precision> precisions) const {
    for (const std::string mask : {"block", "causal"}) {
      Weights before;
      for (const auto precision : precisions) {
        const std::string what = config::name_of(precision);
        const Runtime runtime{device, precision};
        const auto whole = trained(what + "-whole", mask, runtime);
        expect_same(whole, trained(what + "-again", mask, runtime),
                    what + ", trained again");
        const auto halfway =
            checkpoint_path(folder_ / (mask + what + "-whole/checkpoints"), 3);
        expect_same(whole, trained(what + "-on", mask, runtime, halfway),
                    what + ", resumed");
        // Else it would be the precision before, and prove nothing of this one.
        if (!before.empty()) {
          EXPECT_FALSE(std::ranges::equal(
              whole, before,
              [](const auto& one, const auto& other) {
                return torch::equal(one.second.to(torch::kFloat64),
                                    other.second.to(torch::kFloat64));
              }))
              << what;
        }
        before = whole;
      }
    }
  }
  testing::TemporaryFolder folder_;
};

TEST_F(TrainBits, RepeatAndResumeOnTheCpu) {
  expect_repeats(torch::kCPU, {Precision::kFloat64, Precision::kFloat32,
                               Precision::kBFloat16});
}

TEST_F(TrainBits, RepeatAndResumeOnCuda) {
  if (!torch::cuda::is_available()) GTEST_SKIP() << "no CUDA device";
  expect_repeats(torch::Device(torch::kCUDA, 0),
                 {Precision::kFloat32, Precision::kTF32, Precision::kBFloat16});
}

}  // namespace
}  // namespace propagator::train
