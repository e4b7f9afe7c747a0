#include "propagator/run/experiment.h"

#include <algorithm>
#include <fstream>
#include <map>

#include "testing.h"

namespace propagator::run {
namespace {

using config::Document;

// Results are traced by it: configurations keep the hash that they had when
// these were written down, whatever their keys are called now.
TEST(RunExperiment, HashesStayWhatTheyWere) {
  for (const auto& [name, hash] :
       {std::pair{"forecast/quick", "982cfa3a357a"},
        std::pair{"forecast/base-block-published", "5dbe79aa3ae0"},
        std::pair{"solve/poisson", "1f0ec1ac45e4"},
        std::pair{"solve/allen-cahn", "488b853888fa"},
        std::pair{"solve/wave-pinnsformer", "4035c13bcf5c"},
        std::pair{"locate/cylinder", "6ffae3c3960c"},
        std::pair{"locate/lecture-2", "ac1fac4064f5"},
        std::pair{"reconstruct/heat-gp", "572a5fb31fab"},
        std::pair{"reconstruct/heat-rbf", "37c15a14b03f"},
        std::pair{"reconstruct/wake-gp", "de4789e2cf92"},
        std::pair{"reconstruct/wake-rbf", "6e1e865aaee8"}}) {
    const auto file = fmt::format("{}/{}.yaml", PROPAGATOR_CONFIGS, name);
    const Experiment experiment(Document::from_file(file));
    EXPECT_EQ(experiment.hash().substr(0, 12), hash) << name;
    EXPECT_TRUE(experiment.remarks(std::nullopt).empty()) << name;
  }
}

// Modes of the truth itself would be the answer before the question.
TEST(RunExperiment, ModesOfAWakeAreOfAnotherFlow) {
  for (const std::string name : {"wake-pod", "wake-small-pod"}) {
    const Experiment e(Document::from_file(
        fmt::format("{}/reconstruct/{}.yaml", PROPAGATOR_CONFIGS, name)));
    const auto files = e.task().simulated_files();
    ASSERT_EQ(files.size(), 2U) << name;
    EXPECT_NE(files[0].path, files[1].path) << name;
    EXPECT_EQ(std::ranges::count(files[0].settings, "wake.reynolds=110"), 0);
    EXPECT_EQ(std::ranges::count(files[1].settings, "wake.reynolds=110"), 1);
    EXPECT_TRUE(e.remarks(std::nullopt).empty()) << name;
  }
}

// A key that came later is part of the hash where it says something.
TEST(RunExperiment, LaterKeysAreHashedWhereTheyAreSet) {
  const auto hash = [](const std::string& more) {
    auto document = Document::from_file(
        fmt::format("{}/solve/wave-spformer-alibi.yaml", PROPAGATOR_CONFIGS));
    if (!more.empty()) document.override_with(more);
    return Experiment(document).hash();
  };
  EXPECT_EQ(hash("model.alibi_scale=domain"), hash(""));
  EXPECT_NE(hash("model.alibi_scale=batch"), hash(""));
}

TEST(RunExperiment, FormerKeysMeanTheSameAndAreRemarked) {
  const Experiment now(Document::from_text(
      "task: locate\ndetector: {light_yield: 2}\n"
      "data: {validation: 9, resample_every: 5}\n"
      "schedule: {kind: published}\noptimizer: {adam_steps: 4}\n"
      "reproduce: {max: 3, published: 2}\n",
      "now.yaml"));
  const Experiment then(Document::from_text(
      "task: locate\ndetector: {light: 2}\n"
      "data: {held_back: 9, redraw_every: 5}\n"
      "schedule: {kind: document}\noptimizer: {handover: 4}\n"
      "reproduce: {most: 3, document: 2}\n",
      "then.yaml"));
  EXPECT_EQ(then.hash(), now.hash());
  EXPECT_EQ(then.yaml(), now.yaml());
  EXPECT_EQ(then.reproduce().max, 3);
  EXPECT_EQ(then.remarks(std::nullopt).size(),
            now.remarks(std::nullopt).size() + 7);
  EXPECT_EQ(then.remarks(std::nullopt)[0],
            "then.yaml:2:19: detector.light is now called "
            "detector.light_yield");
}

// What only says where, how long, or what it is called decides no number.
TEST(RunExperiment, HashLeavesOutPlacesPagesAndLabels) {
  const auto hash = [](const std::string& more) {
    return Experiment(Document::from_text("task: forecast\n" + more, "a.yaml"))
        .hash();
  };
  for (const char* more :
       {"name: x", "device: cpu", "threads: 3", "train.time_limit: 9",
        "report.cases: 2", "reproduce.max: 1"}) {
    EXPECT_EQ(hash(more), hash("")) << more;
  }
  for (const char* more :
       {"seed: 1", "precision: fp64", "train.clip: 9", "eval.cases: 2",
        "data.storage: stream", "loss.mse: 2"}) {
    EXPECT_NE(hash(more), hash("")) << more;
  }
}

// What is inherited of training was meant for another model than one that is
// fitted: such a file means what it would without it.
TEST(RunExperiment, AFittedModelInheritsNothingOfTraining) {
  const testing::TemporaryFolder folder;
  const auto write = [&](const std::string& name, const std::string& text) {
    std::ofstream(folder / name) << text;
    return Experiment(Document::from_file(folder / name));
  };
  const std::string problem =
      "task: reconstruct\nproblem: {domain: ['x in [0, 1]'], fields: [u], "
      "equations: ['u_x = 1'], exact: ['u = x']}\n";
  const auto network =
      write("network.yaml",
            problem +
                "model: {name: pinn, width: 8}\nloss: {data: 7}\n"
                "points: {per_axis: 9}\ntrain: {max_steps: 5, clip: 2}\n"
                "optimizer: {kind: adam}\nschedule: {lr: 0.5}\n");
  EXPECT_EQ(network.train().max_steps, 5);
  const std::string fit =
      "model: {name: gaussian_process}\nloss: {readings: heteroscedastic}\n";
  const auto alone = write("alone.yaml", problem + fit);
  const auto fitted = write("fitted.yaml", "from: network.yaml\n" + fit);
  EXPECT_EQ(fitted.hash(), alone.hash());
  EXPECT_EQ(fitted.yaml(), alone.yaml());
  EXPECT_TRUE(fitted.remarks(std::nullopt).empty());
  // What stands beside or above the choice of the model counts, and is told.
  const auto third =
      write("third.yaml", "from: fitted.yaml\nsensors: {count: 7}\n");
  EXPECT_EQ(third.schema().find("loss.readings")->get(), "heteroscedastic");
  EXPECT_EQ(third.train().max_steps, alone.train().max_steps);
  const auto told =
      write("told.yaml", "from: network.yaml\n" + fit + "train: {clip: 3}\n");
  EXPECT_EQ(told.remarks(std::nullopt),
            std::vector<std::string>{"train.clip has no effect: "
                                     "gaussian_process is fitted, not "
                                     "trained"});
  // A network that begins from another keeps what that says.
  EXPECT_EQ(write("other.yaml", "from: network.yaml\nmodel: {name: siren}\n")
                .train()
                .max_steps,
            5);
}

TEST(RunExperiment, AMetricThatNoTestHasIsToldWithItsPlace) {
  const std::pair<const char*, const char*> cases[] = {
      {"task: forecast\n", "MSE, hidden frames"},
      {"task: locate\n", "resolution (m)"},
      {"problem: {domain: ['x in [0, 1]'], fields: [u], equations: ['u_x = "
       "1'], conditions: ['on x=0: u = 0']}\n",
       "relative L2"}};
  for (const auto& [text, metric] : cases) {
    const auto expect_metric = [&](const std::string& name) {
      Experiment(Document::from_text(
                     text + fmt::format("reproduce: {{metric: '{}'}}\n", name),
                     "a.yaml"))
          .expect_metric();
    };
    EXPECT_NO_THROW(expect_metric(metric)) << text;
    EXPECT_NO_THROW(expect_metric("")) << text;
    const auto what =
        testing::thrown<ConfigError>([&] { expect_metric("MSEE"); });
    EXPECT_EQ(what,
              "a.yaml:2:21: reproduce.metric: the test has no metric MSEE");
  }
}

// Every metric of a test is one that was announced.
TEST(RunExperiment, TestsHaveTheMetricsThatTheirTasksName) {
  const Experiment experiment(Document::from_text(
      "task: reconstruct\nproblem: {domain: ['x in [0, 1]'], fields: [u], "
      "equations: ['u_x = 1'], exact: ['u = x']}\nsensors: {count: 9}\n"
      "model: {name: radial_basis}\ndevice: cpu\n",
      "a.yaml"));
  auto& task = experiment.task();
  task.prepare(0, {});
  const auto model = experiment.make_model({});
  task.calibrate(*model);
  const auto names = task.metric_names();
  for (const auto& metric : task.evaluate(*model, data::Split::kTest).metrics) {
    EXPECT_EQ(std::ranges::count(names, metric.name), 1) << metric.name;
  }
}

// A task that declares no role for a section would let nothing be changed.
TEST(RunExperiment, EveryTaskDeclaresWhatMayBeChanged) {
  // By resume, by an evaluation.
  const std::map<std::string, std::pair<bool, bool>> expected{
      {"eval", {true, true}},     {"report", {true, true}},
      {"loss", {true, false}},    {"schedule", {true, false}},
      {"model", {false, false}},  {"problem", {false, false}},
      {"points", {false, false}}, {"detector", {false, false}},
      {"plate", {false, false}},  {"name", {false, false}}};
  for (const char* task : {"forecast", "locate", "solve"}) {
    const Experiment experiment(Document::from_text(
        std::string(task) == "solve" ? "problem: {domain: ['x in [0, 1]'], "
                                       "fields: [u], equations: ['u_x = 1'], "
                                       "conditions: ['on x=0: u = 0']}\n"
                                     : fmt::format("task: {}\n", task),
        "a.yaml"));
    for (const auto& field : experiment.schema().fields()) {
      const auto found =
          expected.find(field.path.substr(0, field.path.find('.')));
      // A term of the loss that decides which tensors a model has.
      if (found == expected.end() || field.path == "loss.frames") continue;
      EXPECT_EQ(std::pair(config::resume_may_change(field.role),
                          config::evaluation_may_change(field.role)),
                found->second)
          << field.path;
    }
    EXPECT_NE(experiment.hint_for_memory().find("train.batch"),
              std::string::npos);
  }
}

}  // namespace
}  // namespace propagator::run
