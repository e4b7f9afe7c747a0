#include "propagator/tasks/density/wake_inference.h"

#include <torch/utils.h>

#include <cmath>
#include <numbers>

#include "propagator/core/error.h"
#include "propagator/data/wake_cycles_simulator.h"
#include "propagator/tasks/density/density.h"
#include "tasks/training.h"
#include "testing.h"

namespace propagator::tasks {
namespace {

using testing::kDouble;
using testing::near;
using testing::thrown;
using torch::Tensor;

constexpr double kPi = std::numbers::pi;

// A wake that can be written down: a wave that moves with x, stronger and
// faster at higher Re, in a window without a y.
double strouhal_at(double reynolds) { return 0.22 - 5 / reynolds; }
double strength_at(double reynolds) { return 0.6 - 20 / reynolds; }

class TasksWakeInference : public ::testing::Test {
 protected:
  TasksWakeInference() {
    const auto reynolds =
        torch::tensor({60., 90., 130., 180.}, torch::kFloat64);
    const auto x = torch::linspace(1, 8, 15, torch::kFloat64);
    const auto y = torch::linspace(-2, 2, 5, torch::kFloat64);
    auto velocity = torch::zeros({4, 3, 2, 5, 15}, torch::kFloat64);
    for (int64_t r = 0; r < 4; ++r) {
      const double strength = strength_at(reynolds[r].item<double>());
      velocity[r][0][0].fill_(0.8);
      velocity[r][1][1].fill_(strength);      // v = strength cos φ
      velocity[r][2][0].fill_(strength / 2);  // u = 0.8 + strength/2 sin φ
    }
    path_ = (folder_.path() / "cycles.h5").string();
    data::save_tensors(path_, {{{"reynolds", reynolds},
                                {"strouhal", 0.22 - 5 / reynolds},
                                {"x", x},
                                {"y", y},
                                {"velocity", velocity}},
                               "{}"});
  }

  WakeInferenceOptions options() const {
    return {.file = path_,
            .sensors = {"2 0.5", "5 -1"},
            .times = 4,
            .interval = 1.5,
            .noise = 0.2};
  }
  testing::TemporaryFolder folder_;
  std::string path_;
};

Tensor column(double value) {
  return torch::full({1, 1}, value, torch::kFloat64);
}

TEST_F(TasksWakeInference, ReadingsFollowTheShedding) {
  const WakeInference inference(options());
  const double reynolds = 100, phase = 0.7;
  const auto found =
      inference.readings_of(torch::tensor({reynolds}, torch::kFloat64),
                            torch::tensor({phase}, torch::kFloat64))[0];
  std::vector<double> expected;
  for (int sensor = 0; sensor < 2; ++sensor) {
    for (int component = 0; component < 2; ++component) {
      for (int t = 0; t < 4; ++t) {
        const double angle = 2 * kPi * strouhal_at(reynolds) * 1.5 * t + phase;
        const double strength = strength_at(reynolds);
        expected.push_back(component == 0 ? 0.8 + strength / 2 * std::sin(angle)
                                          : strength * std::cos(angle));
      }
    }
  }
  EXPECT_TRUE(
      near(found, torch::tensor(expected, torch::kFloat64), testing::kFloat64));
  EXPECT_EQ(inference.observed()[5], "v_1_2");
  EXPECT_EQ(std::ssize(inference.observed()), found.size(0));
}

// Both integrals by brute force: over phases from the readings themselves, and
// over Re from the joint density.
TEST_F(TasksWakeInference, EvidenceIsTheIntegralOverReAndPhase) {
  const WakeInference inference(options());
  const auto observed = inference.draw(1, 0, 3).observed;
  const auto evidence = *inference.log_evidence(observed);
  constexpr int64_t kPhases = 3000, kCells = 600;
  const auto phase =
      torch::arange(kPhases, torch::kFloat64) * (2 * kPi / double{kPhases});
  const double units = 16 * 0.5 * std::log(2 * kPi * 0.04);
  const auto cells = 60 + 120 * (torch::arange(kCells, torch::kFloat64) + 0.5) /
                              double{kCells};
  for (int64_t n = 0; n < 3; ++n) {
    const auto off = inference.readings_of(
                         torch::full({kPhases}, 97., torch::kFloat64), phase) -
                     observed[n];
    const double mean =
        torch::logsumexp(-off.square().sum(1) / 0.08, 0).item<double>() -
        std::log(double{kPhases});
    EXPECT_NEAR(inference.log_joint(column(97), observed.narrow(0, n, 1))
                    .item<double>(),
                mean - units - std::log(120.), 1e-9);
    const auto seen = observed.narrow(0, n, 1).expand({kCells, 16});
    const double sum =
        torch::logsumexp(inference.log_joint(cells.unsqueeze(1), seen), 0)
            .item<double>() +
        std::log(120. / kCells);
    EXPECT_NEAR(evidence[n].item<double>(), sum, 1e-4) << n;
  }
}

TEST_F(TasksWakeInference, TheEstimateIsTheHighestOverReAndPhase) {
  auto narrow = options();
  narrow.noise = 0.02;
  const WakeInference inference(narrow);
  const auto pairs = inference.draw(1, 0, 300);
  const auto off = (inference.estimate(pairs.observed) - pairs.unknown).abs();
  // Little noise leaves little doubt.
  EXPECT_LT(off.median().item<double>(), 3);
  EXPECT_TRUE(torch::isinf(inference.log_joint(column(59),
                                               pairs.observed.slice(0, 0, 1)))
                  .item<bool>());
}

TEST_F(TasksWakeInference, PairsAreThoseOfTheEnsemble) {
  const WakeInference inference(options());
  const auto all = inference.draw(1, 0, 10), some = inference.draw(1, 4, 3);
  EXPECT_TRUE(torch::equal(all.unknown.slice(0, 4, 7), some.unknown));
  EXPECT_TRUE(
      near(all.observed.slice(0, 4, 7), some.observed, testing::kFloat64));
}

run::Experiment wake_experiment(const std::string& keys) {
  return run::Experiment(config::Document::from_text(
      "task: density\nprecision: fp64\n"
      "data: {samples: 500, validation: 50}\n"
      "eval: {samples: 300, draws: 40, two_sample: 100}\n"
      "model: {name: spline_flow, flows: 1, width: 8}\n"
      "inference: {name: wake, wake: {" +
          keys + "}}\n",
      "test"));
}

TEST_F(TasksWakeInference, APosteriorIsTestedWhole) {
  const auto e = wake_experiment("file: " + path_ + ", noise: 0.2");
  const auto files = e.task().simulated_files();
  ASSERT_EQ(files.size(), 1);
  EXPECT_EQ(files[0].simulator, "wake-cycles");
  EXPECT_EQ(files[0].path, path_);
  e.task().prepare(0, kDouble);
  const auto model = e.make_model(kDouble);
  e.task().calibrate(*model);
  const auto found = e.task().evaluate(*model, data::Split::kTest).numbers;
  // Before training: one width about the classical answer, whatever is seen.
  EXPECT_GT(found.at("gap").get<double>(), 0.02);
  EXPECT_LT(found.at("gap").get<double>(), 3);
  EXPECT_EQ(found.at("rank_histogram").at("Re").size(), 20u);
  EXPECT_EQ(e.task().surrogate(model, kDouble)->inputs().size(), 1u + 36u);
}

TEST_F(TasksWakeInference, SaysWhatCannotBeAsked) {
  const auto said = [&](const std::string& keys) {
    return thrown<ConfigError>([&] { wake_experiment(keys); });
  };
  const auto has = [](const std::string& text, const std::string& words) {
    EXPECT_NE(text.find(words), std::string::npos) << text;
  };
  has(said("reynolds_min: 150, reynolds_max: 100"), "expected more than 150");
  has(said("noise: 0"), "inference.wake.noise");
  has(said("times: 0"), "inference.wake.times");
  has(said("sensors: [\"2\"]"), "two numbers");
  has(said("sensors: [\"2 a\"]"), "two numbers");
  has(said("sensors: []"), "one or more");
  has(said("file: \"\""), "needs a file");
  const auto refused = [&](auto change) {
    auto asked = options();
    change(asked);
    return thrown<DataError>([&] { WakeInference(asked).draw(1, 0, 1); });
  };
  has(refused([](auto& o) { o.reynolds_max = 200; }), "got 60 to 180");
  has(refused([](auto& o) { o.sensors = {"9 0"}; }), "outside its window");
  auto missing = options();
  missing.file = (folder_.path() / "none.h5").string();
  has(thrown<FileError>([&] { WakeInference(missing).draw(1, 0, 1); }),
      "no table");
}

}  // namespace
}  // namespace propagator::tasks
