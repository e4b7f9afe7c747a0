// Pages and explanations as a user asks for them.

#include <nlohmann/json.hpp>

#include "command.h"
#include "propagator/core/files.h"
#include "propagator/core/process.h"
#include "testing.h"

namespace propagator {
namespace {

using nlohmann::json;
using testing::Outcome;
using testing::TemporaryFolder;
using testing::tiny;

// Two small runs, trained once for all tests.
class Pages : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    shared = new TemporaryFolder;
    train("a", "");
    train("b", "-s model.mask=causal -s train.max_steps=20");
  }
  static void TearDownTestSuite() { delete shared; }

  static std::string path(const std::string& name) {
    return (*shared / name).string();
  }
  static Outcome train(const std::string& name, const std::string& options,
                       const std::string& environment = "") {
    const auto outcome = testing::shell(
        environment + testing::program() + " train " + tiny() + " --runs " +
        path("") + " --name " + name + " -s train.max_steps=60 " + options);
    EXPECT_EQ(outcome.status, 0) << outcome.output;
    return outcome;
  }
  static void expect(const Outcome& outcome, int status,
                     const std::string& text) {
    EXPECT_EQ(outcome.status, status) << outcome.output;
    EXPECT_NE(outcome.output.find(text), std::string::npos) << outcome.output;
  }

  static TemporaryFolder* shared;
};
TemporaryFolder* Pages::shared = nullptr;

TEST_F(Pages, TrainingEndsWithAPage) {
  const auto outcome = train("page", "-s report.page=yes");
  expect(outcome, 0, "report: " + path("page/report.html"));
  expect(outcome, 0, "learned propagator: ");
  const auto page = read_file(path("page/report.html"));
  for (const char* text :
       {"heat-plate paper (published)", "1.13e-06", "leak audit: 0 leaks",
        "The learned propagator", "data-kind=\"fields\"", "data-kind=\"maps\"",
        "Reproduce it", "max_steps: 60"}) {
    EXPECT_NE(page.find(text), std::string::npos) << text;
  }
  EXPECT_LT(page.size(), 5u << 20);
  const auto numbers = json::parse(read_file(path("page/explain.json")));
  EXPECT_GT(numbers.at("learned_propagator").at("data_error").back(), 0);
}

TEST_F(Pages, ReportMakesItAgain) {
  expect(testing::propagator("report " + path("a")), 0,
         "report: " + path("a/report.html"));
  EXPECT_TRUE(fs::exists(path("a/figures/loss.gp")));
  if (!find_program("gnuplot").empty()) {
    EXPECT_TRUE(fs::exists(path("a/figures/propagator-source.png")));
    EXPECT_TRUE(fs::exists(path("a/figures/leak-audit.svg")));
  }
}

TEST_F(Pages, WithoutGnuplotTheRunSucceedsAndSaysWhatToInstall) {
  const auto outcome =
      train("bare", "-s report.page=yes", "PATH=/nonexistent ");
  expect(outcome, 0, "gnuplot-nox");
  EXPECT_NE(read_file(path("bare/report.html")).find("gnuplot-nox"),
            std::string::npos);
  EXPECT_TRUE(fs::exists(path("bare/figures/loss.dat")));
}

TEST_F(Pages, ExplainPrintsItsNumbers) {
  const auto outcome =
      testing::propagator("-q explain --json " + path("a") + " 2>/dev/null");
  ASSERT_EQ(outcome.status, 0) << outcome.output;
  const auto numbers = json::parse(outcome.output);
  const auto& learned = numbers.at("learned_propagator");
  EXPECT_EQ(learned.at("times").back(), 15);
  EXPECT_EQ(learned.at("directions"), 64);
  EXPECT_EQ(numbers.at("leak_audit").at("leaks"), 0);
  EXPECT_TRUE(fs::exists(path("a/explain.html")));
}

// The number that gives the project its name, on the configuration `tiny`.
TEST_F(Pages, TheLearnedPropagatorsErrorTellsATrainedModelFromAnUntrainedOne) {
  const auto error = [&](const std::string& name, const std::string& options) {
    train(name, options);
    testing::propagator("-q explain " + path(name));
    const auto numbers = json::parse(read_file(path(name + "/explain.json")));
    return numbers.at("learned_propagator")
        .at("data_error")
        .back()
        .get<double>();
  };
  EXPECT_GT(error("untrained", "-s train.max_steps=1 -s schedule.lr=0"), 0.95);
  EXPECT_LT(error("trained", "-s train.max_steps=600"), 0.6);
}

TEST_F(Pages, ComparisonShowsNumbersAndTheKeysThatDiffer) {
  const auto folder = path("comparison");
  const auto command =
      "report " + path("a") + " " + path("b") + " --out " + folder;
  expect(testing::propagator(command), 0, folder + "/report.html");
  const auto page = read_file(folder + "/report.html");
  for (const char* text :
       {"forecast: 2 runs", "<td>model.mask</td><td>block</td><td>causal</td>",
        "train.max_steps", "MSE, hidden frames"}) {
    EXPECT_NE(page.find(text), std::string::npos) << text;
  }
  EXPECT_EQ(page.find("<td>model.width</td>"), std::string::npos);
  expect(testing::propagator(command), 2, "exists already");
  expect(testing::propagator(command + " --force"), 0, "report.html");
}

TEST_F(Pages, ErrorsAlongOtherAxesAreOtherFigures) {
  std::string runs;
  for (const char* problem : {"heat", "helmholtz", "wave"}) {
    expect(testing::propagator(
               fmt::format("-q solve {} --device cpu --model siren --name {} "
                           "--runs {} -s points.per_axis=6 -s train.epochs=1 "
                           "-s eval.per_axis=8 -s eval.classical=no "
                           "-s report.page=no",
                           problem, problem, path(""))),
           0, "relative L2");
    runs += " " + path(problem);
  }
  const auto folder = path("solutions");
  expect(testing::propagator("report" + runs + " --out " + folder), 0,
         "report.html");
  const auto along = [&](const std::string& name) {
    return read_file(folder + "/figures/" + name + ".dat");
  };
  for (const char* name : {"heat", "wave"}) {
    EXPECT_NE(along("curves").find(name), std::string::npos);
    EXPECT_EQ(along("curves-2").find(name), std::string::npos);
  }
  EXPECT_EQ(along("curves").find("helmholtz"), std::string::npos);
  EXPECT_NE(along("curves-2").find("helmholtz"), std::string::npos);
  const auto page = read_file(folder + "/report.html");
  for (const char* text :
       {"along t.", "along x.", ">machine</th>", ">seed</th>", ">code</th>"}) {
    EXPECT_NE(page.find(text), std::string::npos) << text;
  }
}

TEST_F(Pages, FieldsThatAreRebuiltShowBandsAndSensors) {
  const auto page_of = [](const std::string& name, const std::string& problem) {
    write_file_atomically(path(name + ".yaml"),
                          "task: reconstruct\nmodel.name: gaussian_process\n"
                          "loss.readings: heteroscedastic\n"
                          "sensors: {count: 40, noise: 0.1}\n" +
                              problem);
    expect(testing::propagator("-q train " + path(name + ".yaml") +
                               " --device cpu --runs " + path("") + " --name " +
                               name + " -s eval.per_axis=12"),
           0, "relative L2");
    return read_file(path(name + "/report.html"));
  };
  const auto ode = page_of("ode",
                           "problem: {domain: ['t in [0, 2]'], fields: u, "
                           "equations: [u_t = -u], exact: [u = exp(-t)]}\n");
  EXPECT_NE(ode.find("the bands that are to hold 50 and 95 % of readings"),
            std::string::npos);
  EXPECT_NE(read_file(path("ode/figures/uncertainty-u.dat")).find("held out"),
            std::string::npos);
  EXPECT_EQ(ode.find("\"sensors\":"), std::string::npos);  // nothing to explore
  const auto plate =
      page_of("plate",
              "problem: {domain: ['x in [0, 1]', 'y in [0, 1]', 't in [0, 1]'],"
              " fields: u, equations: [u_t = u_xx + u_yy],"
              " exact: [u = exp(-2*t)*sin(x)*sin(y)]}\n");
  EXPECT_NE(plate.find("\"sensors\":[["), std::string::npos);
  EXPECT_NE(plate.find("Rings are where a field was read"), std::string::npos);
  EXPECT_EQ(plate.find("Not drawn"), std::string::npos);
}

TEST_F(Pages, ACaseGoesToParaview) {
  const auto folder = path("series");
  const auto command =
      "report " + path("a") + " --paraview " + folder + " --case 1";
  expect(testing::propagator(command), 0, "test case 1: " + folder);
  EXPECT_TRUE(fs::exists(folder + "/series.pvd"));
  int files = 0;
  for (const auto& entry : fs::directory_iterator(folder)) {
    files += entry.path().extension() == ".vti" ? 1 : 0;
  }
  EXPECT_EQ(files, 16);
  expect(testing::propagator(command), 2, "exists already");
  expect(testing::propagator("report " + path("a") + " --paraview " +
                             path("none") + " --case 99"),
         2, "expected a case from 0 to 3");
  EXPECT_FALSE(fs::exists(path("none")));
}

TEST_F(Pages, AnUnfinishedRunHasAPageThatSaysSo) {
  fs::copy(path("a"), path("half"), fs::copy_options::recursive);
  fs::remove(path("half/result.json"));
  expect(testing::propagator("report " + path("half")), 0, "report.html");
  EXPECT_NE(read_file(path("half/report.html")).find("no result yet"),
            std::string::npos);
  expect(testing::propagator("report " + path("a") + " " + path("half")), 1,
         "has no result.json");
}

TEST_F(Pages, BadInputIsNamed) {
  expect(testing::propagator("report " + path("nowhere")), 1, "no run at");
  expect(testing::propagator("explain " + path("nowhere")), 1, "no run at");
  expect(testing::propagator("explain " + path("a") + " --work -1"), 2,
         "error");
  expect(testing::propagator("report " + path("a") + " " + path("b") +
                             " --paraview x"),
         2, "--paraview takes one run");
  fs::copy(path("a"), path("broken"), fs::copy_options::recursive);
  write_file_atomically(path("broken/result.json"), "{\"mse\": ");
  expect(testing::propagator("report " + path("broken")), 3, "is not JSON");
  write_file_atomically(path("broken/result.json"), "{\"mse\": 1}");
  expect(testing::propagator("report " + path("broken")), 3, "result.json");
}

}  // namespace
}  // namespace propagator
