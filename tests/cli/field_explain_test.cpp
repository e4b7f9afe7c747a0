// Explanations of a forecast of fields as a user asks for them.

#include <nlohmann/json.hpp>

#include "command.h"
#include "propagator/core/files.h"
#include "testing.h"

namespace propagator {
namespace {

using nlohmann::json;
using testing::Outcome;

class PagesFieldExplain : public ::testing::Test {
 protected:
  std::string path(const std::string& name) const {
    return (folder_ / name).string();
  }
  static void expect(const Outcome& outcome, int status,
                     const std::string& text) {
    EXPECT_EQ(outcome.status, status) << outcome.output;
    EXPECT_NE(outcome.output.find(text), std::string::npos) << outcome.output;
  }
  // A file of the simulator, and a run on it named `run`.
  void train(const std::string& simulator, const std::string& keys,
             const std::string& more) const {
    const auto file = path("data.h5");
    const auto made = testing::propagator("-q data generate " + simulator +
                                          keys + " --out " + file);
    ASSERT_EQ(made.status, 0) << made.output;
    const auto trained = testing::propagator("-q train " + file + " --runs " +
                                             path("") + " --name run " + more);
    ASSERT_EQ(trained.status, 0) << trained.output;
  }
  testing::TemporaryFolder folder_;
};

TEST_F(PagesFieldExplain, ALineHasItsStepBesideTheTrueOne) {
  train("advection",
        " -s field.cases=40 -s field.points=16 -s field.frames=9 "
        "-s field.time=0.5 -s field.modes=3",
        "-s model.width=8 -s model.modes=4 -s data.given=1 "
        "-s train.max_steps=150 -s report.page=yes");
  // The page of a run has what `explain` shows.
  EXPECT_NE(read_file(path("run/report.html")).find("The learned step"),
            std::string::npos);
  const auto outcome = testing::propagator("-q explain --json --cell 3 " +
                                           path("run") + " 2>/dev/null");
  ASSERT_EQ(outcome.status, 0) << outcome.output;
  const auto step = json::parse(outcome.output).at("learned_step");
  EXPECT_EQ(step.at("cell"), json({3}));
  EXPECT_EQ(step.at("cells"), 16);
  EXPECT_EQ(step.at("eigenvalues"), 16);
  EXPECT_LT(step.at("truth_error"), 1e-5);
  EXPECT_NEAR(step.at("true_largest_eigenvalue"), 1, 1e-9);
  // The network has room for all waves of the data, and a short training
  // teaches it most of them; 0.09 to 0.16 with three seeds.
  EXPECT_LT(step.at("data_error").get<double>(),
            0.4 * step.at("data_error_kept").get<double>());
  for (const char* name : {"step-matrix", "step-cell", "step-eigenvalues"}) {
    EXPECT_TRUE(fs::exists(path("run/figures/" + std::string(name) + ".gp")))
        << name;
  }
  EXPECT_FALSE(fs::exists(path("run/figures/step-window.gp")));
  expect(testing::propagator("explain " + path("run")), 0, "learned step: it");
  const auto before = read_file(path("run/explain.json"));
  expect(testing::propagator("explain " + path("run") + " --cell 16"), 2,
         "expected a cell of 1 place, 0 to 15, got 16");
  expect(testing::propagator("explain " + path("run") + " --cell 3,4"), 2,
         "got 3,4");
  for (const char* cell : {"x", "3,"}) {
    expect(testing::propagator("explain " + path("run") + " --cell " + cell), 2,
           "--cell: expected whole numbers");
  }
  expect(testing::propagator("explain " + path("run") + " --cell=-1"), 2,
         "0 to 15, got -1");
  expect(testing::propagator("explain " + path("run") + " --only attention"), 2,
         "expected a model with attention");
  expect(testing::propagator("explain " + path("run") + " --only heat"), 2,
         "--only: expected");
  EXPECT_EQ(read_file(path("run/explain.json")), before);
}

TEST_F(PagesFieldExplain, PatchesShowWhereTheyAttendTo) {
  train("heat-fields",
        " -s field.cases=12 -s field.points=8 -s field.modes=4 "
        "-s field.frames=5",
        "-s model.name=space_time -s model.width=8 -s model.layers=2 "
        "-s model.patch=2 -s data.given=2 -s train.max_steps=3");
  const auto run = path("run");
  expect(testing::propagator("explain " + run + " --only attention --cell 7,0"),
         0, "page: ");
  auto numbers = json::parse(read_file(run + "/explain.json"));
  EXPECT_FALSE(numbers.contains("learned_step"));
  EXPECT_EQ(numbers.at("attention").at("query"), json({3, 0}));
  EXPECT_EQ(numbers.at("attention").at("patches_attended").size(), 2);
  EXPECT_TRUE(fs::exists(run + "/figures/attention-space.gp"));
  expect(testing::propagator("explain " + run + " --only propagator"), 0,
         "learned step: it differs from the true one by");
  numbers = json::parse(read_file(run + "/explain.json"));
  EXPECT_FALSE(numbers.contains("leak_audit"));
  EXPECT_EQ(numbers.at("learned_step").at("norm_per_frame").size(), 2);
  EXPECT_TRUE(fs::exists(run + "/figures/step-window.gp"));
  // Faces stay: so many eigenvalues are one, and no true one is larger.
  EXPECT_NEAR(numbers.at("learned_step").at("true_largest_eigenvalue"), 1,
              1e-9);
}

}  // namespace
}  // namespace propagator
