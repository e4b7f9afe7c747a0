#include "propagator/tasks/forecast/fields/known_step.h"

#include <torch/utils.h>

#include "physics/fields/field_with.h"
#include "propagator/core/error.h"
#include "propagator/physics/fields/advection.h"
#include "propagator/physics/fields/blobs.h"
#include "propagator/physics/fields/heat_fields.h"
#include "propagator/run/simulation.h"
#include "propagator/tasks/explainable.h"
#include "propagator/tasks/forecast/fields/field_sums.h"
#include "tasks/training.h"
#include "testing.h"

namespace propagator::tasks {
namespace {

using nlohmann::json;
using propagator::testing::With;

constexpr int64_t kSeed = 4;

template <class Problem>
double error_of(const std::string& simulator,
                const std::vector<std::string>& settings) {
  const With<Problem> with(settings);
  const auto found = with.problem.solve({.seed = kSeed, .count = 1});
  const auto step = known_step({{"simulator", simulator}},
                               with.problem.layout(), found.parameters[0]);
  EXPECT_TRUE(step) << simulator;
  return step ? step_error(*step, found.values[0]) : 1;
}

TEST(TasksKnownStep, CarriesFramesOfItsSimulator) {
  EXPECT_LT(error_of<physics::Advection>("advection",
                                         {"points=32", "frames=6", "time=0.3"}),
            1e-10);
  EXPECT_LT(error_of<physics::HeatFields>("heat-fields",
                                          {"points=15", "frames=4", "modes=5"}),
            1e-10);
  // Gaussians are band-limited to what the points leave of them.
  EXPECT_LT(error_of<physics::Blobs>("blobs", {"points=32", "frames=4"}), 1e-3);
}

TEST(TasksKnownStep, OfOthersThereIsNone) {
  const With<physics::Advection> line({"points=16"});
  const With<physics::HeatFields> cube({"points=5", "modes=2", "dims=3"});
  const auto number = torch::ones({1}, torch::kFloat64);
  for (const json& note :
       {json(), json::object(), json::array(), json{{"simulator", 7}},
        json{{"simulator", "burgers"}}, json{{"simulator", "heat-fields"}}}) {
    EXPECT_FALSE(known_step(note, line.problem.layout(), number)) << note;
  }
  EXPECT_FALSE(known_step({{"simulator", "heat-fields"}}, cube.problem.layout(),
                          number));
  auto layout = line.problem.layout();
  layout.parameters = {"velocity"};
  EXPECT_FALSE(known_step({{"simulator", "advection"}}, layout, number));
}

class TasksFieldSubject : public ::testing::Test {
 protected:
  // Waves of `advection`, or noise that says it is of it.
  std::string file(bool noise) {
    const With<physics::Advection> waves({"points=16", "frames=6", "time=0.5"});
    const auto found = waves.problem.solve({.seed = kSeed, .count = 20});
    data::FieldSet set{.layout = waves.problem.layout(),
                       .values = found.values.to(torch::kFloat32),
                       .parameters = found.parameters};
    if (noise) set.values = testing::random(set.values.sizes(), "noise");
    set.values = set.values.to(torch::kFloat32);
    set.note["simulator"] = "advection";
    const auto path = folder_ / (noise ? "noise.h5" : "waves.h5");
    data::write_field_set(path, set);
    return path.string();
  }
  testing::TemporaryFolder folder_;
};

// What the file says of itself is compared with its frames.
TEST_F(TasksFieldSubject, TheTruthIsTakenIfTheFramesAgree) {
  for (const bool noise : {false, true}) {
    const run::Experiment e(config::Document::from_text(
        "task: forecast\nprecision: fp64\ndata: {given: 2, file: " +
            file(noise) +
            "}\nmodel: {name: fno, width: 4, layers: 1, modes: 2}\n",
        "test"));
    const auto model = testing::prepared_model(e);
    e.task().calibrate(*model);
    const auto subject =
        dynamic_cast<Explainable&>(e.task()).step_subject(*model);
    ASSERT_TRUE(subject);
    EXPECT_EQ(static_cast<bool>(subject->truth), !noise);
    EXPECT_EQ(subject->truth_error > 0.1, noise);
    EXPECT_EQ(subject->window.sizes(), (std::vector<int64_t>{2, 16, 1}));
    EXPECT_EQ(subject->step(subject->window.unsqueeze(0)).sizes(),
              (std::vector<int64_t>{1, 16, 1}));
    EXPECT_GT(subject->work, 0);
  }
}

class TasksFieldContest : public ::testing::Test {
 protected:
  static run::Experiment of(const std::string& file, const std::string& more) {
    return run::Experiment(config::Document::from_text(
        "task: forecast\nprecision: fp64\ndata: {given: 2, file: " + file +
            "}\nmodel: {name: fno, width: 6, layers: 2, modes: 3}\n" + more,
        "test"));
  }
  // Of a test of a network that has learned nothing.
  static json numbers(const std::string& file, const std::string& more) {
    const auto e = of(file, more);
    const auto model = testing::prepared_model(e);
    e.task().calibrate(*model);
    return e.task().evaluate(*model, data::Split::kTest).numbers;
  }
  testing::TemporaryFolder folder_;
};

// The simulator's own answer of the test's cases, and the drift of its sum.
TEST_F(TasksFieldContest, ItsOwnSolverStandsBesideIt) {
  const auto file = (folder_ / "advection.h5").string();
  run::write_simulation(
      run::Simulation(
          "advection",
          config::Document::from_text(
              "field: {cases: 20, points: 64, frames: 8, time: 1}", "test")),
      file);
  const auto r = numbers(file, "");
  const auto& solver = r.at("classical");
  EXPECT_EQ(solver.at("simulator"), "advection");
  // Four waves are on the coarsest grid too.
  EXPECT_LT(solver.at("nrmse").get<double>(), 1e-4);
  EXPECT_LE(solver.at("seconds_per_case").get<double>(),
            r.at("seconds_per_case").get<double>());
  const auto& sums = r.at("conserved");
  EXPECT_EQ(sums.at("channels"), nlohmann::json::array({"u"}));
  EXPECT_LT(sums.at("true_drift").at("u").at("largest").get<double>(), 1e-6);
  EXPECT_GT(sums.at("drift").at("u").at("largest").get<double>(), 1e-4);
  EXPECT_EQ(sums.at("drift").at("u").at("per_frame").size(), 6);
  const auto without =
      numbers(file, "eval: {classical: no, conserved: [none]}\n");
  EXPECT_FALSE(without.contains("classical"));
  EXPECT_FALSE(without.contains("conserved"));
  EXPECT_NE(testing::thrown<ConfigError>([&] {
              of(file, "eval.conserved: [w]\n");
            }).find("the file has no channel w"),
            std::string::npos);
}

TEST_F(TasksFieldContest, OfAFileFromElsewhereNoSolverIsKnown) {
  const auto file = (folder_ / "mine.npz").string();
  data::save_tensors(file, {{{"u", testing::random({20, 8, 16}, "u")}}, ""});
  const auto r = numbers(file, "");
  EXPECT_EQ(r.at("classical").at("missing"),
            "the file's note names no solver of its fields");
  EXPECT_FALSE(r.contains("conserved"));
}

// By hand: sums of 4 become 5 and 2, of absolute values of 8.
TEST(TasksSumDrift, IsAShareOfAbsoluteValues) {
  const auto last = torch::tensor({6.0, -2.0}).view({1, 2, 1});
  const auto later = torch::tensor({6.0, -1.0, 0.0, 2.0}).view({1, 2, 2, 1});
  SumDrift drift({0});
  drift.add(last, later);
  const auto r = drift.numbers({"mass"}).at("mass");
  EXPECT_EQ(r.at("largest"), 0.25);
  EXPECT_EQ(r.at("per_frame"), nlohmann::json::array({0.125, 0.25}));
}

}  // namespace
}  // namespace propagator::tasks
