#include <fstream>
#include <string>

#include "command.h"
#include "propagator/core/files.h"
#include "propagator/data/csv.h"
#include "testing.h"

namespace propagator {
namespace {

namespace fs = std::filesystem;

// Events of a user's own: from a simulator's file to places, command by
// command.
class VerbsEvents : public ::testing::Test {
 protected:
  std::string path(const std::string& name) const {
    return (folder_.path() / name).string();
  }
  void SetUp() override {
    write_file_atomically(folder_.path() / "small.yaml",
                          "task: locate\n"
                          "detector: {jitter: 1, charge: yes}\n"
                          "model: {width: 16, layers: 1, feed_forward: 16}\n"
                          "train: {max_steps: 20, batch: 32}\n"
                          "eval: {classical: 20}\n"
                          "report: {cases: 1}\n");
  }

  testing::TemporaryFolder folder_;
};

TEST_F(VerbsEvents, AreGeneratedLearnedAndLocated) {
  const auto made =
      testing::propagator("data generate " + path("small.yaml") + " --out " +
                          path("events.csv") + " -s data.events=200 -s seed=3");
  ASSERT_EQ(made.status, 0) << made.output;
  EXPECT_NE(made.output.find("200 events of "), std::string::npos)
      << made.output;
  const auto names = read_file(path("events.csv")).substr(0, 70);
  EXPECT_EQ(
      names.find("event,sensor,time,charge,x,y,z,sensor_x,sensor_y,sensor_z\n"),
      0u)
      << names;
  const auto check = testing::propagator("check " + path("small.yaml") +
                                         " -s data.file=" + path("events.csv"));
  EXPECT_EQ(check.status, 0) << check.output;
  EXPECT_NE(check.output.find("200 events in"), std::string::npos)
      << check.output;
  for (const std::string more : {"", "-s detector.placement=file"}) {
    const std::string name = more.empty() ? "numbers" : "places";
    const auto trained = testing::propagator(
        "train " + path("small.yaml") + " -s data.file=" + path("events.csv") +
        " " + more + " --runs " + path("") + " --name " + name +
        " --threads 1");
    ASSERT_EQ(trained.status, 0) << trained.output;
    EXPECT_NE(trained.output.find("which sensors fired and charges"),
              std::string::npos)
        << trained.output;
    const auto located = testing::propagator(
        "predict " + path(name) + " --input " + path("events.csv") +
        " --output " + path(name + ".csv"));
    ASSERT_EQ(located.status, 0) << located.output;
    EXPECT_EQ(data::read_csv(path(name + ".csv"))[0].values.size(0), 200);
  }
}

TEST_F(VerbsEvents, FilesThatDoNotFitAreErrorsOfData) {
  const auto train = [&](const std::string& names, const std::string& rows) {
    write_file_atomically(folder_.path() / "bad.csv", names + "\n" + rows);
    return testing::propagator("train " + path("small.yaml") +
                               " -s data.file=" + path("bad.csv") + " --runs " +
                               path("") + " --name bad --force");
  };
  const auto missing = train("event,sensor,time,x,y,z", "1,1,40,0,0,0\n");
  EXPECT_EQ(missing.status, 3) << missing.output;
  EXPECT_NE(missing.output.find("expected a column named 'charge'"),
            std::string::npos)
      << missing.output;
  const auto unknown =
      train("event,sensor,time,charge,x,y,z", "1,12,40,1,0,0,0\n");
  EXPECT_EQ(unknown.status, 3) << unknown.output;
  EXPECT_NE(unknown.output.find("expected a sensor from 1 to 8, got 12"),
            std::string::npos)
      << unknown.output;
  const auto absent = testing::propagator("train " + path("small.yaml") +
                                          " -s data.file=" + path("no.csv") +
                                          " --runs " + path("") + " --name no");
  EXPECT_NE(absent.status, 0);
  EXPECT_NE(absent.output.find("no.csv"), std::string::npos) << absent.output;
}

}  // namespace
}  // namespace propagator
