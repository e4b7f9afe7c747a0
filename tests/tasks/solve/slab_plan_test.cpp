#include "propagator/tasks/solve/slab_plan.h"

#include <torch/utils.h>

#include "propagator/pde/residual/slab_chain.h"
#include "tasks/training.h"
#include "testing.h"

namespace propagator::tasks {
namespace {

using testing::kDouble;
using Next = SlabPlan::Next;

SlabOptions options() {
  return {.most = 4, .first = 1, .tolerance = 1e-3, .trial = 0.1};
}

TEST(TasksSlabPlan, WhatIsSolvedIsOneSlab) {
  SlabPlan plan(options(), {0, 2});
  EXPECT_EQ(
      plan.after(
          {.first = 10, .best = 10, .done = 0.05, .stage = 0.05, .full = 0.05}),
      Next::kGoOn);
  EXPECT_EQ(
      plan.after(
          {.first = 10, .best = 0.009, .done = 0.5, .stage = 0.5, .full = 0.5}),
      Next::kGoOn);
  EXPECT_EQ(plan.after({.first = 10,
                        .best = 1e-9,
                        .done = 1,
                        .stage = 1,
                        .full = 1,
                        .stopped = true}),
            Next::kGoOn);
  EXPECT_TRUE(plan.is_whole());
}

TEST(TasksSlabPlan, WhatIsNotIsCutAndTheRestSharesTheTimeThatIsLeft) {
  SlabPlan plan(options(), {0, 2});
  EXPECT_EQ(
      plan.after(
          {.first = 10, .best = 1, .done = 0.1, .stage = 0.1, .full = 0.1}),
      Next::kCut);
  EXPECT_DOUBLE_EQ(plan.slab().high, 1);
  EXPECT_EQ(
      plan.after(
          {.first = 9, .best = 1, .done = 0.2, .stage = 0.1, .full = 0.1}),
      Next::kCut);
  EXPECT_DOUBLE_EQ(plan.slab().high, 0.5);
  // No further: that would be eight. Each of the four has 0.2.
  EXPECT_EQ(
      plan.after(
          {.first = 9, .best = 1, .done = 0.35, .stage = 0.15, .full = 0.15}),
      Next::kGoOn);
  EXPECT_EQ(
      plan.after(
          {.first = 9, .best = 1e-5, .done = 0.4, .stage = 0.2, .full = 0.2}),
      Next::kFinish);
  EXPECT_DOUBLE_EQ(plan.slab().low, 0.5);
  EXPECT_DOUBLE_EQ(plan.slab().high, 1);
  EXPECT_EQ(plan.number(), 2);
  EXPECT_EQ(plan.attempts(), 4);
  // One that has come to its end leaves its time to the others.
  EXPECT_EQ(plan.after({.first = 1,
                        .best = 1e-9,
                        .done = 0.4,
                        .stage = 0,
                        .full = 0,
                        .stopped = true}),
            Next::kFinish);
  EXPECT_EQ(
      plan.after(
          {.first = 1, .best = 1e-5, .done = 0.6, .stage = 0.2, .full = 0.2}),
      Next::kGoOn);
  EXPECT_EQ(
      plan.after(
          {.first = 1, .best = 1e-5, .done = 0.7, .stage = 0.3, .full = 0.3}),
      Next::kFinish);
  EXPECT_DOUBLE_EQ(plan.slab().high, 2);
  EXPECT_EQ(
      plan.after(
          {.first = 1, .best = 1e-5, .done = 1, .stage = 0.3, .full = 0.3}),
      Next::kGoOn);
}

TEST(TasksSlabPlan, StepsOfAnotherOptimiserAreNoTrial) {
  SlabPlan plan(options(), {0, 2});
  EXPECT_EQ(plan.after(
                {.first = 10, .best = 1, .done = 0.3, .stage = 0.3, .full = 0}),
            Next::kGoOn);
}

TEST(TasksSlabPlan, ALaterSlabCanBeCutToo) {
  auto given = options();
  given.most = 5;
  given.first = 2;
  SlabPlan plan(given, {0, 1});
  EXPECT_DOUBLE_EQ(plan.slab().high, 0.5);
  EXPECT_EQ(
      plan.after(
          {.first = 1, .best = 1e-6, .done = 0.5, .stage = 0.5, .full = 0.5}),
      Next::kFinish);
  // One as long was solved, so this has half of its time to fall.
  EXPECT_EQ(
      plan.after(
          {.first = 1, .best = 1, .done = 0.6, .stage = 0.1, .full = 0.1}),
      Next::kGoOn);
  EXPECT_EQ(
      plan.after(
          {.first = 1, .best = 1, .done = 0.75, .stage = 0.25, .full = 0.25}),
      Next::kCut);
  EXPECT_DOUBLE_EQ(plan.slab().low, 0.5);
  EXPECT_DOUBLE_EQ(plan.slab().high, 0.75);
}

SlabbedTime of(std::vector<std::string> conditions,
               const std::string& equation = "u_tt = u_xx") {
  return slabbed_time(
      pde::Problem::parse({.domain = {"x in [0, 1]", "t in [0, 1]"},
                           .fields = {"u"},
                           .equations = {equation},
                           .conditions = std::move(conditions)}));
}

TEST(TasksSlabPlan, GoesOnWithWhatTheConditionsGiveAtFirst) {
  const auto wave =
      of({"at t=0: u = 0", "at t=0: u_t = sin(pi*x)", "on boundary: u = 0"});
  ASSERT_TRUE(wave.time);
  EXPECT_EQ(wave.time->orders, (std::vector<int64_t>{2}));
  const auto heat = of({"at t=0: u = 0", "on boundary: u = t"}, "u_t = u_xx");
  EXPECT_EQ(heat.time->orders, (std::vector<int64_t>{1}));
  EXPECT_EQ(
      of({"at t=0: u = 0", "at t=1: u = 1", "on boundary: u = t"}, "u_t = u_xx")
          .why_not,
      "a condition holds at the last time");
  EXPECT_EQ(of({"periodic t: u, u_t", "on boundary: u = 0"}).why_not,
            "time is periodic");
}

// u = sin(x - 2 t), in as many steps as two slabs share.
constexpr const char* kCarried =
    "task: solve\nrecipe: precise\nproblem:\n"
    "  domain: ['x in [0, 2*pi]', 't in [0, 1]']\n  fields: u\n"
    "  equations: u_t + 2*u_x = 0\n"
    "  conditions: ['at t=0: u = sin(x)', 'periodic x']\n"
    "  exact: u = sin(x - 2*t)\n"
    "model: {width: 8, layers: 2}\noptimizer: {adam_steps: 0}\n"
    "points: {per_axis: 12}\neval: {per_axis: 20, classical: no}\n"
    "train: {budget: 0, epochs: 12, validate_every: 1, checkpoint_every: 1,\n"
    "  keep_checkpoints: 20}\nslabs: {most: 2, first: 2}\n";

TEST(TasksSlabPlan, SlabsAreSolvedOneAfterTheOtherAndResumeToTheSameBits) {
  for (const char* kind : {"broyden", "levenberg_marquardt"}) {
    auto document = config::Document::from_text(kCarried, "test");
    document.set("optimizer.kind", kind, "test");
    const run::Experiment experiment(document);
    const testing::TemporaryFolder folder;
    const auto whole = testing::trained_to(12, experiment, kDouble,
                                           folder / "whole", std::nullopt);
    for (const int64_t step : {3, 6, 8}) {
      const auto again = testing::trained_to(
          12, experiment, kDouble, folder / std::to_string(step),
          train::checkpoint_path(folder / "whole" / "checkpoints", step));
      for (const auto& [name, value] : whole.best) {
        EXPECT_TRUE(torch::equal(again.best.at(name), value)) << name;
      }
    }
    experiment.task().prepare(0, kDouble);
    const auto model = experiment.make_model(kDouble);
    train::set_parameters(*model, whole.best, "test");
    EXPECT_EQ(dynamic_cast<pde::SlabChain&>(*model).finished(), 1);
    model->eval();
    const auto numbers =
        experiment.task().evaluate(*model, data::Split::kTest).numbers;
    EXPECT_LT(numbers.at("relative_l2"), 1e-2) << kind;
  }
}

// A loss that never falls far enough.
TEST(TasksSlabPlan, AFailedSlabBeginsAnewWithOtherWeights) {
  auto document = config::Document::from_text(kCarried, "test");
  document.set("slabs.first", "1", "test");
  document.set("slabs.tolerance", "0", "test");
  document.set("slabs.trial", "0.2", "test");
  const run::Experiment experiment(document);
  const testing::TemporaryFolder folder;
  const auto end = testing::trained_to(12, experiment, kDouble, folder / "run",
                                       std::nullopt);
  const auto slabs = end.best.at("slabs");
  EXPECT_EQ(slabs[0].item<double>(), 1);
  EXPECT_EQ(slabs[2].item<double>(), 0.5);
}

TEST(TasksSlabPlan, WhatSlabsCannotDoIsSaid) {
  auto document = config::Document::from_text(kCarried, "test");
  document.set("slabs.first", "3", "test");
  EXPECT_THROW(run::Experiment{document}, ConfigError);
  document.set("slabs.first", "2", "test");
  document.set("loss.balance", "uncertainty", "test");
  document.set("optimizer.kind", "adam", "test");
  const run::Experiment learned(document);
  const auto remarks = learned.remarks(std::nullopt);
  EXPECT_TRUE(std::ranges::any_of(remarks, [](const auto& remark) {
    return fmt::format("{}", remark).find("slabs") != std::string::npos;
  }));
}

}  // namespace
}  // namespace propagator::tasks
