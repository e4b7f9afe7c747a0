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

// The heat of a rod, whose first slab of time is cut after a few steps.
constexpr const char* kSlabs =
    "task: solve\nrecipe: precise\nprecision: fp64\n"
    "problem:\n"
    "  domain: ['x in [0, 1]', 't in [0, 1]']\n  fields: u\n"
    "  equations: u_t = 0.1*u_xx\n"
    "  conditions: ['at t=0: u = sin(pi*x) + sin(3*pi*x)', 'on x=0: u = 0',\n"
    "               'on x=1: u = 0']\n"
    "model: {width: 8, layers: 2}\n"
    "points: {per_axis: 9, validation_per_axis: 5}\n"
    "optimizer: {adam_steps: 8}\nbroyden: {iterations: 1}\n"
    "slabs: {first: 2}\n"
    "train: {budget: 0, max_steps: 24, checkpoint_every: 6, "
    "validate_every: 4, keep_checkpoints: 9}\n";

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

// Stages that begin anew, after which a graph of the step before would train
// another slab: what comes after them is the same on both devices, and after a
// checkpoint of either side of them.
TEST_F(TrainBits, StagesAreTheSameOnCuda) {
  const run::Experiment experiment(config::Document::from_text(kSlabs, "rod"));
  const auto trained = [&](const std::string& name, const Runtime& runtime,
                           const std::optional<std::filesystem::path>& from) {
    const RuntimeScope scope(runtime, /*threads=*/1);
    const auto saved =
        testing::trained_to(24, experiment, runtime, folder_ / name, from);
    return Weights(saved.model.begin(), saved.model.end());
  };
  const auto expected = trained("cpu", testing::kDouble, std::nullopt);
  // [0, 0.5] was cut after 12 steps, the second 12 began with Adam's.
  ASSERT_EQ(expected.at("slabs")[2].item<double>(), 0.25);
  std::vector<torch::Device> devices{torch::kCPU};
  if (torch::cuda::is_available()) devices.emplace_back(torch::kCUDA, 0);
  for (const auto& device : devices) {
    const Runtime runtime{device, Precision::kFloat64};
    const std::string name = device.str() + "-whole";
    const auto whole = trained(name, runtime, std::nullopt);
    for (const auto& [parameter, value] : whole) {
      EXPECT_TRUE(testing::near(value, expected.at(parameter), {1e-7, 1e-9}))
          << parameter << " on " << device;
    }
    for (const int64_t step : {6, 18}) {
      const auto from = checkpoint_path(folder_ / name / "checkpoints", step);
      expect_same(whole,
                  trained(fmt::format("{}-{}", name, step), runtime, from),
                  fmt::format("on {}, resumed at step {}", device.str(), step));
    }
  }
  if (devices.size() == 1) GTEST_SKIP() << "no CUDA device";
}

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
