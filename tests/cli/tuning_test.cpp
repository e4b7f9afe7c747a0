#include <cstdlib>
#include <filesystem>
#include <string>

#include "command.h"
#include "testing.h"

namespace propagator {
namespace {

using testing::Outcome;
using testing::tiny;

// A tiny base, fine-tuned and merged by the verbs.
class Tuning : public ::testing::Test {
 protected:
  std::string path(const std::string& name) const {
    return (folder_.path() / name).string();
  }
  Outcome train(const std::string& name, const std::string& more,
                const std::string& config = tiny()) {
    return testing::propagator("train " + config + " --device cpu --runs " +
                               folder_.path().string() + " --name " + name +
                               " -s train.max_steps=6 " + more);
  }
  std::string adapter(const std::string& run) const {
    return path(run) + "/checkpoints/step-0000000006/adapter.safetensors";
  }
  static void expect(const Outcome& outcome, int status,
                     const std::string& text) {
    EXPECT_EQ(outcome.status, status) << outcome.output;
    EXPECT_NE(outcome.output.find(text), std::string::npos) << outcome.output;
  }
  // The line of the model in a test's table, without its time.
  static std::string errors_of(const Outcome& outcome) {
    const auto begin = outcome.output.find("heat_former");
    return outcome.output.substr(begin, 96);
  }

  testing::TemporaryFolder folder_;
};
using VerbsTuning = Tuning;
using BadInputTuning = Tuning;

TEST_F(VerbsTuning, ARunIsTunedItsAdapterAppliedAndMerged) {
  ASSERT_EQ(train("base", "").status, 0);
  const auto tuned =
      train("tuned", "--from " + path("base") +
                         " -s tune.method=lora -s tune.rank=2 -s seed=0");
  expect(tuned, 0, " of 17088 parameters");
  const auto whole = testing::propagator("-q eval " + path("tuned"));
  const auto with = testing::propagator("-q eval " + path("base") +
                                        " --adapter " + adapter("tuned"));
  ASSERT_EQ(with.status, 0) << with.output;
  EXPECT_EQ(errors_of(with), errors_of(whole));
  EXPECT_NE(errors_of(with),
            errors_of(testing::propagator("-q eval " + path("base"))));
  expect(testing::propagator("report " + path("base") + " --adapter " +
                             adapter("tuned") + " --weights " +
                             path("merged.safetensors")),
         0, "merged.safetensors (31 tensors)");
  // From the merged file as from the run.
  const std::string frozen = " -s tune.freeze=encoder.*";
  ASSERT_EQ(train("a", "--from " + path("tuned") + frozen).status, 0);
  ASSERT_EQ(train("b", "--from " + path("merged.safetensors") + frozen).status,
            0);
  EXPECT_EQ(errors_of(testing::propagator("-q eval " + path("a"))),
            errors_of(testing::propagator("-q eval " + path("b"))));
}

TEST_F(BadInputTuning, WhatDoesNotFitTogetherIsSaid) {
  ASSERT_EQ(train("base", "").status, 0);
  const auto from = "--from " + path("base") + " ";
  expect(train("bad", from + "-s tune.freeze=decoder.*"), 2,
         "'decoder.*' matches no parameter of this model");
  expect(train("bad", from + "-s model.width=16"), 2,
         "unknown_frame is (32) there and (16) here");
  expect(train("bad", from, "locate/lecture-2"), 2,
         "is of task forecast, and this configuration of task locate");
  expect(train("bad", "--from " + path("nowhere")), 2, "there is no run");
  expect(train("bad", "--from " + path("base") + " -s tune.method=lorra"), 2,
         "expected full | last_layer | lora | adapters | prefix");
  EXPECT_FALSE(std::filesystem::exists(path("bad")));
  ASSERT_EQ(train("tuned", from + "-s tune.method=prefix").status, 0);
  ASSERT_EQ(train("other", "--seed 7").status, 0);
  expect(testing::propagator("eval " + path("other") + " --adapter " +
                             adapter("tuned")),
         3, "is the adapter of another model");
  expect(testing::propagator("report " + path("tuned") + " --weights " +
                             path("merged.safetensors")),
         2, "cannot be merged");
  EXPECT_FALSE(std::filesystem::exists(path("merged.safetensors")));
  // A run keeps how it was tuned.
  expect(
      testing::propagator("resume " + path("tuned") + " -s tune.method=full"),
      2, "tune.method belongs to the run");
}

}  // namespace
}  // namespace propagator
