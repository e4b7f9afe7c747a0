// Readings and truths that users bring: each mistake in them has its answer
// and its exit code.

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "command.h"
#include "mat_files.h"
#include "propagator/core/files.h"
#include "propagator/data/mat.h"
#include "propagator/data/tensor_file.h"
#include "testing.h"

namespace propagator {
namespace {

using testing::Outcome;

class BadInputReadings : public ::testing::Test {
 protected:
  void SetUp() override { write_bar("pinn, width: 4, layers: 1"); }
  // A bar whose readings are in a file.
  void write_bar(const std::string& model) {
    write("bar.yaml",
          "task: reconstruct\ndevice: cpu\nproblem:\n"
          "  domain: ['x in [0, 1]', 't in [0, 1]']\n  fields: [u, q]\n"
          "  equations: [u_t = -q_x, q = -0.1*u_x]\n"
          "sensors: {file: read.csv}\nmodel: {name: " +
              model +
              "}\npoints: {per_axis: 4, validation_per_axis: 3}\n"
              "eval: {per_axis: 4}\nreport: {page: no}\n");
  }
  std::string path(const std::string& name) const {
    return (folder / name).string();
  }
  void write(const std::string& name, const std::string& text) {
    std::ofstream(folder / name) << text;
  }
  Outcome check(const std::string& more = "") {
    return testing::propagator("check " + path("bar.yaml") + " " + more);
  }
  const std::string steps = " -s train.max_steps=2";
  Outcome train(const std::string& more = "") {
    return testing::propagator("train " + path("bar.yaml") + " --runs " +
                               folder.path().string() + " --force " + more);
  }
  void expect(const Outcome& outcome, int status, const std::string& text) {
    EXPECT_EQ(outcome.status, status) << outcome.output;
    EXPECT_NE(outcome.output.find(text), std::string::npos) << outcome.output;
  }

  testing::TemporaryFolder folder;
};

TEST_F(BadInputReadings, AreRefusedByCheckWithTheirPlace) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "read.csv: line 1: expected the names of the columns"},
      {"x,t,u\n", "read.csv: line 2: expected numbers below the names"},
      {"x,u\n0.5,1\n", "expected a column named 't', it has x, u"},
      {"x,T,u\n0.5,1,1\n", "hint: is T meant? Then call it t"},
      {"x,t,temperature\n0.5,1,1\n", "has no reading of any field"},
      {"x,t,u\n0.5,1,1\n2,1,1\n", "1 of 2 sensors are outside of the domain"},
      {"x,t,u\n0.5,-1,1\n", "the first at x = 0.5, t = -1: t goes from 0 to 1"},
      {"x,t,u\n0.5,1,inf\n", "line 2, column 3: expected a finite number"},
      {"x,t,u\n0.5,,1\n", "line 2, column 2: expected a finite number for 't'"},
      {"x,t,u\n0.5,1,\n0.2,0.3,nan\n", "has no reading of any field"},
      {"x,t,u\n0.5,1\n", "line 2, column 3: expected a finite number for 'u'"},
  };
  for (const auto& [text, what] : cases) {
    write("read.csv", text);
    expect(check(), 3, what);
  }
  fs::remove(folder / "read.csv");
  expect(check(), 1, "cannot read");
}

TEST_F(BadInputReadings, KeysThatDoNotFitTheFileAreNamed) {
  write("read.csv", "x,t,u,q\n0.5,1,1,\n0.25,0.5,2,nan\n");
  expect(check("-s sensors.fields=[w]"), 2, "the problem has no field w");
  expect(check("-s sensors.fields=[u,q]"), 3, "has no reading of q");
  expect(check("-s loss.readings=heteroscedastic"), 3,
         "has no reading of q, whose variance");
  expect(check("-s sensors.noise=0.1"), 2, "have their own noise");
  expect(check("-s sensors.held_out=1"), 2,
         "sensors.held_out: expected a number");
  expect(check("-s sensors.count=9"), 0,
         "it has 2 sensors, fewer than sensors.count = 9");
  expect(check("-s sensors.fields=[u]"), 0, "2 sensors that train");
  write("read.txt", "x,t,u\n0.5,1,1\n");
  expect(check("-s sensors.file=" + path("read.txt")), 2,
         "expected a file name that ends in .csv, .h5, .hdf5, .npz or .mat");
}

TEST_F(BadInputReadings, WhatIsOddIsToldAndTrained) {
  write("read.csv",
        "x,t,U,u,q\n0.5,1,0,1,\n0.5,1,0,2,nan\n0.2,0.3,0,,0.5\n"
        "0.7,0.1,0,3,\n");
  const auto outcome = train("--name odd -s sensors.held_out=0" + steps);
  expect(outcome, 0,
         "1 sensors stand where another does, with readings that "
         "differ by up to 1");
  expect(outcome, 0, "not used: U");
  expect(outcome, 0, "4 of 8 readings are missing");
}

TEST_F(BadInputReadings, OneSensorIsEnoughForEveryKindOfModel) {
  write("read.csv", "x,t,u\n0.5,1,3\n");
  for (const std::string model :
       {"pinn, width: 4, layers: 1", "gaussian_process", "radial_basis"}) {
    write_bar(model);
    const auto outcome = train(
        "--name one" + (model.starts_with("pinn") ? steps : std::string()));
    expect(outcome, 0, "1 sensors");
  }
}

TEST_F(BadInputReadings, ATruthThatDoesNotFitIsRefused) {
  const auto x = torch::linspace(0, 1, 3, torch::kFloat64);
  const auto save = [&](const torch::Tensor& places) {
    data::save_tensors(folder / "truth.h5",
                       {{{"x", places},
                         {"t", x},
                         {"u", torch::ones({3, 3}, torch::kFloat64)},
                         {"q", torch::zeros({3, 3}, torch::kFloat64)}},
                        ""});
    return check("-s sensors.file= -s sensors.count=4 -s truth.file=" +
                 path("truth.h5"));
  };
  expect(save(x), 0, "4 sensors that train");
  expect(save(x.flip(0)), 3,
         "expected numbers of x that rise, got 0.5 behind 1");
  expect(save(2 * x), 3,
         "x goes from 0 to 2, and in problem.domain from 0 to 1");
  expect(save(x / 4), 0, "the test says nothing of the rest");
  expect(check("-s sensors.file= -s sensors.count=40 -s truth.file=" +
               path("truth.h5")),
         3, "the truth has 9 nodes, fewer than 44 sensors");
}

TEST_F(BadInputReadings, AMatFileIsListedReadAndNotWritten) {
  if (!data::has_matio()) GTEST_SKIP() << "built without matio";
  const auto x = torch::linspace(0, 1, 5, torch::kFloat64);
  testing::write_mat(folder / "read.mat", {{"x", x}, {"t", x}, {"u", 2 * x}});
  expect(check("-s sensors.held_out=0 -s sensors.file=" + path("read.mat")), 0,
         "5 sensors that train");
  const auto info = testing::propagator("data info --json " + path("read.mat"));
  ASSERT_EQ(info.status, 0) << info.output;
  const auto arrays = nlohmann::json::parse(info.output).at("arrays");
  ASSERT_EQ(arrays.size(), 3U);
  EXPECT_EQ(arrays[1].at("name"), "u");
  EXPECT_EQ(arrays[1].at("shape"), nlohmann::json({5, 1}));
  EXPECT_EQ(arrays[1].at("largest"), 2);
  testing::write_mat_with_others(folder / "other.mat");
  expect(testing::propagator("data info " + path("other.mat")), 0,
         "not read, since they are no arrays of numbers: text, complex, cell");
  expect(testing::propagator("data generate wake --out " + path("out.mat")), 2,
         "hint: a .mat file is read, not written");
  write("cut.mat", read_file(folder / "read.mat").substr(0, 400));
  expect(testing::propagator("data info " + path("cut.mat")), 3,
         "is not whole");
}

// Whoever solves a problem with readings gets that, or is told how.
TEST_F(BadInputReadings, OfAProblemToBeSolvedFindTheirTask) {
  write("read.csv", "x,t,u,q\n0.5,0.5,1,0.1\n0.2,0.1,0.8,0\n");
  const auto problem = [&](const std::string& more) {
    write("mine.yaml",
          "device: cpu\nproblem:\n"
          "  domain: ['x in [0, 1]', 't in [0, 1]']\n  fields: [u, q]\n"
          "  equations: [u_t = -q_x, q = -c*u_x]\n"
          "  unknown: ['c in [0.1, 1]']\n"
          "  conditions: ['at t=0: u = 1']\n"
          "model: {name: pinn, width: 4, layers: 1}\n"
          "points: {per_axis: 4, validation_per_axis: 3}\n"
          "eval: {per_axis: 4}\nreport: {page: no}\n"
          "train: {max_steps: 2}\n" +
              more);
    return testing::propagator("solve " + path("mine.yaml") + " --runs " +
                               folder.path().string() + " --force");
  };
  expect(problem("sensors: {file: read.csv, held_out: 0}\n"), 0, "c, found");
  expect(problem("observations: {file: read.csv}\n"), 2,
         "readings are given in the section sensors");
  expect(problem("task: solve\nsensors: {file: read.csv}\n"), 2,
         "solve takes no readings");
  expect(problem(""), 2, "there are no readings to find it from");
  write("read.csv", "x,t,u,q\n0.5,2,1,0.1\n0.2,0.1,0.8,0\n");
  expect(problem("sensors: {file: read.csv}\n"), 3,
         "outside of the domain, the first at x = 0.5, t = 2");
}

// Without a run of hours in between.
TEST_F(BadInputReadings, AMetricThatTheTestDoesNotHaveIsToldBeforeTraining) {
  write("read.csv", "x,t,u\n0.5,1,3\n");
  expect(check("-s 'reproduce.metric=relative L3'"), 2,
         "reproduce.metric: the test has no metric relative L3");
  expect(check("-s 'reproduce.metric=relative L2'"), 0, "# good");
  const auto reproduced = testing::propagator(
      "reproduce forecast/tiny --draft --runs " + path("runs") + " --out " +
      path("results") + " -s reproduce.metric=accuracy");
  expect(reproduced, 2, "the test has no metric accuracy");
  EXPECT_FALSE(fs::exists(folder / "runs"));
}

}  // namespace
}  // namespace propagator
