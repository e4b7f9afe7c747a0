// Which rows `reproduce` trains, and the bands that they are judged by.

#include <nlohmann/json.hpp>

#include "command.h"
#include "propagator/core/files.h"
#include "testing.h"

namespace propagator {
namespace {

using nlohmann::json;
using testing::Outcome;

class ReproduceRows : public ::testing::Test {
 protected:
  // In a folder of its own, where configurations of its own are found first.
  Outcome reproduce(const std::string& words) const {
    return testing::shell("cd " + folder_.path().string() + " && " +
                          testing::program() + " reproduce " + words +
                          " --draft --device cpu");
  }
  void write(const std::string& name, const std::string& text) const {
    fs::create_directories((folder_ / name).parent_path());
    write_file_atomically(folder_ / name, text);
  }
  // A plate that trains for a moment.
  void write_row(const std::string& name, const std::string& more = "") const {
    write("configs/" + name + ".yaml",
          "# a row\nfrom: " + testing::tiny() +
              "\ntrain: {max_steps: 2}\nreport: {page: no}\n" + more);
  }
  bool is_there(const std::string& row) const {
    return fs::exists(folder_ / ("results/" + row + ".json"));
  }
  json result(const std::string& row) const {
    return json::parse(read_file(folder_ / ("results/" + row + ".json")));
  }
  testing::TemporaryFolder folder_;
};

TEST_F(ReproduceRows, ATaskMeansThoseWithABandAndNamesTheOthers) {
  write_row("mine/judged", "reproduce: {max: 9}\n");
  write_row("mine/compared", "reproduce: {metric: total loss}\n");
  write_row("mine/tried");
  const auto outcome = reproduce("mine");
  EXPECT_EQ(outcome.status, 0) << outcome.output;
  EXPECT_NE(outcome.output.find("left out, for they have no band "
                                "(reproduce.max): mine/compared, mine/tried;"),
            std::string::npos)
      << outcome.output;
  EXPECT_TRUE(is_there("mine/judged"));
  EXPECT_FALSE(is_there("mine/compared"));
  EXPECT_FALSE(is_there("mine/tried"));
  // Who names one of them as well means it.
  const auto both = reproduce("mine mine/compared");
  EXPECT_EQ(both.status, 0) << both.output;
  EXPECT_NE(both.output.find("(reproduce.max): mine/tried;"), std::string::npos)
      << both.output;
  EXPECT_TRUE(is_there("mine/compared"));
}

TEST_F(ReproduceRows, APatternMeansAllThatBeginSo) {
  write_row("mine/judged", "reproduce: {max: 9}\n");
  write_row("mine/question-a");
  write_row("mine/question-b");
  const auto outcome = reproduce("'mine/question-*'");
  EXPECT_EQ(outcome.status, 0) << outcome.output;
  EXPECT_EQ(outcome.output.find("left out"), std::string::npos);
  EXPECT_TRUE(is_there("mine/question-a"));
  EXPECT_TRUE(is_there("mine/question-b"));
  EXPECT_FALSE(is_there("mine/judged"));
  const auto row = result("mine/question-a");
  EXPECT_EQ(row.at("band"), json({0, 0}));
  EXPECT_FALSE(row.contains("also"));
  // Of a task without a band nothing is trained, and the answer says how.
  fs::remove(folder_ / "configs/mine/judged.yaml");
  const auto nothing = reproduce("mine");
  EXPECT_EQ(nothing.status, 2);
  EXPECT_NE(nothing.output.find("no row of mine has a band"), std::string::npos)
      << nothing.output;
  EXPECT_NE(nothing.output.find("'mine/*' trains all of them"),
            std::string::npos);
}

TEST_F(ReproduceRows, ASecondBandDecidesToo) {
  const auto bands = [&](const std::string& also) {
    write_row("mine/two", "reproduce: {max: 9, also: total loss, also_max: " +
                              also + "}\n");
    return reproduce("mine/two --seeds 2");
  };
  const auto inside = bands("1e9");
  EXPECT_EQ(inside.status, 0) << inside.output;
  EXPECT_NE(inside.output.find("total loss"), std::string::npos);
  const auto row = result("mine/two");
  const auto& also = row.at("also");
  EXPECT_EQ(also.at("metric"), "total loss");
  EXPECT_EQ(also.at("band"), json({0, 1e9}));
  ASSERT_EQ(also.at("seeds").size(), 2u);
  EXPECT_EQ(also.at("value"), std::min(also.at("seeds")[0].get<double>(),
                                       also.at("seeds")[1].get<double>()));
  EXPECT_NE(row.at("metric"), "total loss");
  const auto outside = bands("1e-9");
  EXPECT_EQ(outside.status, 6) << outside.output;
  EXPECT_NE(outside.output.find("outside 1.00e-09"), std::string::npos)
      << outside.output;
  write_row("mine/two", "reproduce: {also: totl loss, also_max: 1}\n");
  const auto unknown = reproduce("mine/two");
  EXPECT_EQ(unknown.status, 2) << unknown.output;
  EXPECT_NE(unknown.output.find("no metric totl loss"), std::string::npos)
      << unknown.output;
}

// The learned step of fields with a known one is a metric, without a page too.
TEST_F(ReproduceRows, FieldsAreJudgedByTheirLearnedStep) {
  const auto row = [&](const std::string& simulator, double max) {
    write("configs/mine/waves.yaml",
          "# waves\ntask: forecast\ndata:\n  file: " + simulator +
              ".h5\n  simulator: " + simulator +
              "\n  simulation: [field.cases=24, field.points=16, "
              "field.frames=6, field.time=0.5, field.modes=3]\n"
              "  given: 1\nmodel: {width: 8, layers: 2, modes: 4}\n"
              "train: {max_steps: 60}\nreport: {page: no}\n" +
              fmt::format("reproduce: {{max: 9, also: 'learned step, cells', "
                          "also_max: {}}}\n",
                          max));
    return reproduce("mine/waves");
  };
  const auto inside = row("advection", 9);
  ASSERT_EQ(inside.status, 0) << inside.output;
  const auto judged = result("mine/waves");
  const auto& step = judged.at("result").at("learned_step");
  EXPECT_EQ(judged.at("also").at("value"), step.at("cell_error"));
  EXPECT_GT(step.at("cell_error"), 0);
  EXPECT_EQ(step.at("cells"), 16);
  EXPECT_EQ(judged.at("per_seed")[0].at("metrics").at("learned step, data"),
            step.at("data_error"));
  EXPECT_EQ(row("advection", 1e-9).status, 6);
  // Burgers' step is not linear: that is told before anything is computed.
  const auto burgers = row("burgers", 9);
  EXPECT_EQ(burgers.status, 2) << burgers.output;
  EXPECT_NE(burgers.output.find("the test has no metric learned step, cells"),
            std::string::npos)
      << burgers.output;
  EXPECT_FALSE(fs::exists(folder_ / "burgers.h5"));
}

}  // namespace
}  // namespace propagator
