// `propagator solve` of a problem that says nothing but the problem.

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "command.h"
#include "propagator/core/files.h"
#include "testing.h"

namespace propagator {
namespace {

std::string rod() {
  return (fs::path(std::getenv("PROPAGATOR_CONFIGS")).parent_path() /
          "problems/heat.yaml")
      .string();
}

TEST(VerbsSolve, AProblemAloneIsSolvedWithinItsBudget) {
  const testing::TemporaryFolder folder;
  const auto outcome = testing::propagator(
      "solve " + rod() + " --device cpu --runs " + folder.path().string() +
      " --name rod -s train.budget=4 -s points.per_axis=12"
      " -s points.validation_per_axis=8 -s eval.per_axis=21"
      " -s optimizer.adam_steps=20 -s recipe=precise -s report.page=no");
  ASSERT_EQ(outcome.status, 0) << outcome.output;
  const auto result =
      nlohmann::json::parse(read_file(folder / "rod/result.json"));
  EXPECT_GE(result.at("training_seconds"), 4);
  EXPECT_LT(result.at("training_seconds"), 60);
  EXPECT_LT(result.at("relative_l2"), 0.05);
  EXPECT_EQ(result.at("precision"), "fp64");
  // It has ended: nothing is left to go on with.
  const auto resumed =
      testing::propagator("resume " + (folder / "rod").string());
  EXPECT_EQ(resumed.status, 0) << resumed.output;
  const auto again =
      nlohmann::json::parse(read_file(folder / "rod/result.json"));
  EXPECT_EQ(again.at("steps"), result.at("steps"));
  EXPECT_EQ(again.at("relative_l2"), result.at("relative_l2"));
}

TEST(VerbsSolve, CheckShowsWhichRecipeHolds) {
  const auto usual = testing::propagator("check " + rod() + " --keys");
  EXPECT_EQ(usual.status, 0) << usual.output;
  for (const char* text : {"recipe", "default broyden", "train.budget"}) {
    EXPECT_NE(usual.output.find(text), std::string::npos) << usual.output;
  }
  const auto wrong =
      testing::propagator("check " + rod() + " -s recipe=precis");
  EXPECT_EQ(wrong.status, 2) << wrong.output;
  EXPECT_NE(wrong.output.find("network | precise"), std::string::npos)
      << wrong.output;
}

}  // namespace
}  // namespace propagator
