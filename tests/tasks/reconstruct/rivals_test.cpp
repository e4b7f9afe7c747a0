#include <torch/utils.h>

#include "propagator/models/field_net.h"
#include "propagator/run/run.h"
#include "propagator/run/train.h"
#include "testing.h"

namespace propagator::tasks {
namespace {

// A rod of two fields, of which one is read, rebuilt by a rival of the PGT
// paper through the same harness.
run::Experiment rod_by(const std::string& model, torch::Device device,
                       int64_t steps) {
  return run::Experiment(config::Document::from_text(
      fmt::format(
          "task: reconstruct\nprecision: fp64\ndevice: {}\nproblem:\n"
          "  domain: ['x in [0, 1]', 't in [0, 1]']\n  fields: [u, q]\n"
          "  equations: [u_t = 0.1*q_x, q = u_x]\n"
          "  exact: ['u = 3 + exp(-0.1*pi^2*t)*sin(pi*x)',\n"
          "    'q = pi*exp(-0.1*pi^2*t)*cos(pi*x)']\n"
          "sensors: {{count: 30, fields: [u]}}\nmodel: {{{}}}\n"
          "points: {{per_axis: 6, validation_per_axis: 4, resample_every: 0}}\n"
          "eval: {{per_axis: 8}}\nreport: {{page: no}}\n"
          "train: {{max_steps: {}, checkpoint_every: 3}}\n",
          device.str(), model, steps),
      "test"));
}

double loss_of(const run::Experiment& e, torch::nn::Module& model) {
  const torch::NoGradGuard no_grad;
  auto& task = e.task();
  const auto all = torch::arange(task.size(data::Split::kTrain));
  return task.loss(model, data::Split::kTrain, all).total.item<double>();
}

class TasksReconstructRival : public ::testing::TestWithParam<std::string> {};

TEST_P(TasksReconstructRival, TrainingLowersTheLossAndTheFolderAnswers) {
  for (const auto& device : testing::devices()) {
    const testing::TemporaryFolder folder;
    const auto e = rod_by(GetParam(), device, 12);
    Observer silent;
    run::train(e, folder / "run", false, silent);
    const auto run = run::open(folder / "run");
    const Runtime runtime{device, Precision::kFloat64};
    e.task().prepare(0, runtime);
    const auto fresh = e.make_model(runtime);
    e.task().calibrate(*fresh);
    EXPECT_LT(loss_of(e, run.model()), 0.3 * loss_of(e, *fresh)) << device;
    const auto x = testing::random({5}, "x").abs();
    const auto answers = run.apply({{"x", x}, {"t", x}});
    const torch::NoGradGuard no_grad;
    const auto values =
        models::as_field_net(run.model())
            .values(torch::stack({x, x}, -1).unsqueeze(1).to(device));
    EXPECT_TRUE(testing::near(answers.at("u").cpu(),
                              values.select(-1, 0).squeeze(1).cpu(),
                              {1e-12, 1e-12}));
    EXPECT_NEAR(answers.at("u").mean().item<double>(), 3.5, 0.5);
  }
}

TEST_P(TasksReconstructRival, AResumedRunHasTheSameBits) {
  for (const auto& device : testing::devices()) {
    const testing::TemporaryFolder folder;
    Observer silent;
    run::train(rod_by(GetParam(), device, 6), folder / "run", false, silent);
    const auto last = train::checkpoint_path(folder / "run" / "checkpoints", 6);
    const auto whole = train::load_checkpoint(last).model;
    run::resume(folder / "run", {.from = "step-0000000003"}, silent);
    const auto again = train::load_checkpoint(last).model;
    ASSERT_EQ(whole.size(), again.size());
    for (const auto& [name, value] : whole) {
      EXPECT_TRUE(torch::equal(value, again.at(name)))
          << name << " on " << device;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Tasks, TasksReconstructRival,
    ::testing::Values(
        "name: wire, width: 6, layers: 2, first_w0: 3, hidden_w0: 2, "
        "scale: 1",
        "name: deeponet, width: 8, layers: 2, branch_width: 6, basis: 6",
        "name: fno, grid: 10, modes: 3, width: 6, layers: 2"),
    [](const auto& info) {
      return info.param.substr(6, info.param.find(',') - 6);
    });

}  // namespace
}  // namespace propagator::tasks
