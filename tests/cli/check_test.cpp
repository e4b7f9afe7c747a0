// `propagator check` of many files.

#include <cstdlib>

#include "command.h"
#include "propagator/core/files.h"
#include "testing.h"

namespace propagator {
namespace {

// That one has no effect, or not the one that it seems to have.
bool warns_of_keys(const testing::Outcome& outcome) {
  return outcome.output.find("has no effect: ") != std::string::npos ||
         outcome.output.find("schedule.warmup is not over") !=
             std::string::npos;
}

// One process for all of them: most of the time of one goes into its start.
struct CheckedFiles {
  size_t count = 0;
  testing::Outcome outcome;
};

CheckedFiles check_files_of(const fs::path& top) {
  CheckedFiles checked;
  std::string command = "check";
  for (const auto& entry : fs::recursive_directory_iterator(top)) {
    if (entry.path().extension() != ".yaml") continue;
    command += " " + entry.path().string();
    ++checked.count;
  }
  checked.outcome = testing::propagator(command);
  return checked;
}

size_t times(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos;
       at = text.find(part, at + 1)) {
    ++count;
  }
  return count;
}

TEST(VerbsCheck, EveryProblemIsGoodAndItsExactSolutionSolvesIt) {
  const auto [count, outcome] = check_files_of(
      fs::path(std::getenv("PROPAGATOR_CONFIGS")).parent_path() / "problems");
  EXPECT_EQ(outcome.status, 0) << outcome.output;
  EXPECT_FALSE(warns_of_keys(outcome)) << outcome.output;
  EXPECT_EQ(outcome.output.find("# remarks"), std::string::npos)
      << outcome.output;
  EXPECT_EQ(times(outcome.output, "points in the domain"), count)
      << outcome.output;
  EXPECT_GE(count, 23u);
}

TEST(VerbsCheck, EveryConfigurationIsGood) {
  const auto [count, outcome] =
      check_files_of(std::getenv("PROPAGATOR_CONFIGS"));
  EXPECT_EQ(outcome.status, 0) << outcome.output;
  EXPECT_FALSE(warns_of_keys(outcome)) << outcome.output;
  EXPECT_EQ(times(outcome.output, "\n# good: "), count) << outcome.output;
  EXPECT_GE(count, 14u);
}

TEST(VerbsCheck, CheckOfSeveralGoesOnAfterABadOne) {
  const testing::TemporaryFolder folder;
  const auto bad = folder / "bad.yaml";
  write_file_atomically(bad, "task: forecast\nmodel: {nam: x}\n");
  const auto several = "check " + bad.string() + " " + testing::tiny();
  const auto outcome = testing::propagator(several);
  EXPECT_EQ(outcome.status, 2) << outcome.output;
  EXPECT_NE(outcome.output.find("bad.yaml:2"), std::string::npos)
      << outcome.output;
  EXPECT_EQ(times(outcome.output, "# good: "), 1u) << outcome.output;
  const auto json = testing::propagator(several + " --json");
  EXPECT_EQ(json.status, 2);
  EXPECT_NE(json.output.find("expected one configuration or run with --json"),
            std::string::npos)
      << json.output;
}

}  // namespace
}  // namespace propagator
