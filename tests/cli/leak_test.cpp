// A run that calls itself honest and leaks, as its user meets it. The program
// under test is `propagator` with one model more, which leaks.

#include <nlohmann/json.hpp>

#include "command.h"
#include "propagator/core/files.h"
#include "testing.h"

namespace propagator {
namespace {

class Leak : public ::testing::Test {
 protected:
  Leak() {
    write_file_atomically(file("peeper.yaml"), R"(
task: forecast
device: cpu
plate: {rows: 8, cols: 7, frames: 14}
data: {cases: 30}
model: {name: peeper}
train: {max_steps: 4, batch: 4}
report: {page: no}
)");
  }
  std::string file(const std::string& name) {
    return (folder_ / name).string();
  }
  testing::Outcome train(const std::string& options) {
    return testing::propagator("train " + file("peeper.yaml") + " --runs " +
                               file("") + options);
  }
  nlohmann::json result() {
    return nlohmann::json::parse(read_file(folder_ / "peeper/result.json"));
  }
  testing::TemporaryFolder folder_;
};

void expect_failed(const testing::Outcome& outcome) {
  EXPECT_EQ(outcome.status, 6) << outcome.output;
  for (const char* text :
       {"this run has failed",
        "this run calls itself honest and leaks: it has failed",
        " leaks in "}) {
    EXPECT_NE(outcome.output.find(text), std::string::npos) << outcome.output;
  }
  EXPECT_EQ(outcome.output.find("leak audit: 0 leaks"), std::string::npos);
}

TEST_F(Leak, EveryVerbThatTestsEndsWith6) {
  expect_failed(train(""));
  const auto first = result();
  EXPECT_EQ(first.at("mode"), "honest");
  EXPECT_EQ(first.at("failed"), true);
  EXPECT_GT(first.at("leak_audit").at("leaks"), 0);
  expect_failed(testing::propagator("eval " + file("peeper")));
  expect_failed(
      testing::propagator("eval --split validation " + file("peeper")));
  expect_failed(testing::propagator("resume " + file("peeper") +
                                    " -s train.max_steps=6"));
  EXPECT_EQ(result().at("failed"), true);
}

TEST_F(Leak, SoDoesTheOneThatPrintsNumbers) {
  const auto printed = [&](const testing::Outcome& outcome) {
    EXPECT_EQ(outcome.status, 6) << outcome.output;
    return nlohmann::json::parse(outcome.output, nullptr, false);
  };
  EXPECT_EQ(printed(train(" --json 2>" + file("log"))).at("failed"), true);
  const auto again =
      printed(testing::propagator("-q eval --json " + file("peeper")));
  EXPECT_EQ(again.at("failed"), true);
  EXPECT_EQ(again.at("leak_audit").at("leaks"),
            result().at("leak_audit").at("leaks"));
}

// The same program with a model that does not leak.
TEST_F(Leak, AnHonestModelEndsWith0) {
  const auto outcome = train(" -s model.name=heat_former -s model.width=16");
  EXPECT_EQ(outcome.status, 0) << outcome.output;
  EXPECT_NE(outcome.output.find("leak audit: 0 leaks"), std::string::npos)
      << outcome.output;
}

}  // namespace
}  // namespace propagator
