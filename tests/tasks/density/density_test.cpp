#include "propagator/tasks/density/density.h"

#include <cmath>
#include <fstream>

#include "propagator/core/error.h"
#include "tasks/training.h"
#include "testing.h"

namespace propagator::tasks {
namespace {

using testing::kDouble;
using testing::near;
using testing::thrown;
using torch::Tensor;

run::Experiment experiment(const std::string& more) {
  return run::Experiment(config::Document::from_text(
      "task: density\nprecision: fp64\n"
      "train: {batch: 50, max_steps: 6, checkpoint_every: 1, "
      "keep_checkpoints: 9}\n" +
          more,
      "test"));
}
const char* const kLectureText =
    "target: {name: lecture}\ndata: {samples: 500, validation: 200}\n"
    "eval: {samples: 3000, batch: 700}\n"
    "model: {name: maf, flows: 2, width: 8}\n";

class TasksDensityFile : public ::testing::Test {
 protected:
  // A table of pairs, y about 2 x, with a header.
  std::string table(int64_t rows, const std::string& last = "") {
    const auto path = folder_.path() / "table.csv";
    std::ofstream file(path);
    file << "x,y,c\n";
    const auto z = RandomStream(1, "table").normal({rows, 2});
    for (int64_t n = 0; n < rows; ++n) {
      const double x = z[n][0].item<double>(), e = z[n][1].item<double>();
      file << x << ',' << 2 * x + 0.1 * e << ",3\n";
    }
    file << last;
    return path.string();
  }
  testing::TemporaryFolder folder_;
};

TEST(TasksDensity, ItsLossIsMinusTheMeanLogDensity) {
  const auto e = experiment(kLectureText);
  e.task().prepare(0, kDouble);
  const auto model = e.make_model(kDouble);
  e.task().calibrate(*model);
  const auto positions = torch::tensor({3, 0, 17}, torch::kInt64);
  const auto x = Target({.name = TargetName::kLecture})
                     .sample(500, RandomStream(0, "data/train"))
                     .index_select(0, positions);
  const auto expected = -models::as_density(*model)
                             .log_prob(x, torch::zeros({3, 0}, torch::kFloat64))
                             .mean();
  EXPECT_TRUE(near(e.task().loss(*model, data::Split::kTrain, positions).total,
                   expected, testing::kFloat64));
}

TEST(TasksDensity, ATestSaysHowFarTheTruthIs) {
  const auto e = experiment(kLectureText);
  e.task().prepare(0, kDouble);
  const auto model = e.make_model(kDouble);
  e.task().calibrate(*model);
  const auto found = e.task().evaluate(*model, data::Split::kTest);
  // Normal numbers of the right means and variances: it is some way off.
  const double gap = found.numbers.at("gap").get<double>();
  EXPECT_GT(gap, 0.1);
  EXPECT_LT(gap, 1);
  EXPECT_NEAR(found.numbers.at("entropy").get<double>(), 3.5310242, 1e-6);
  EXPECT_EQ(found.metrics.front().value, gap);
  EXPECT_EQ(found.metrics.front().name, e.task().metric_names().front());
}

TEST(TasksDensity, ResumesWithTheSameBits) {
  const testing::TemporaryFolder folder;
  const auto whole = testing::trained_to(6, experiment(kLectureText), kDouble,
                                         folder.path() / "whole", {});
  const auto resumed = testing::trained_to(
      6, experiment(kLectureText), kDouble, folder.path() / "resumed",
      train::checkpoint_path(folder.path() / "whole/checkpoints", 3));
  for (const auto& [name, value] : whole.model) {
    EXPECT_TRUE(torch::equal(value, resumed.model.at(name))) << name;
  }
}

TEST_F(TasksDensityFile, LearnsColumnsGivenOthers) {
  const auto e = experiment("data: {file: " + table(400) +
                            ", variables: [y], given: [x]}\n"
                            "model: {name: made, width: 8}\n");
  e.task().prepare(0, kDouble);
  const auto model = e.make_model(kDouble);
  e.task().calibrate(*model);
  EXPECT_EQ(e.task().size(data::Split::kTrain), 280);
  EXPECT_EQ(e.task().size(data::Split::kTest), 40);
  const auto found = e.task().evaluate(*model, data::Split::kTest);
  EXPECT_TRUE(std::isfinite(found.metrics.front().value));
  const auto surrogate = e.task().surrogate(model, kDouble);
  const auto answer =
      surrogate->apply({{"x", torch::zeros({5})}, {"y", torch::ones({5})}});
  EXPECT_EQ(answer.at("log_density").sizes(), std::vector<int64_t>{5});
}

TEST_F(TasksDensityFile, TellsWhatIsWrongWithATable) {
  const auto said = [&](const std::string& file, const std::string& columns) {
    return thrown<DataError>([&] {
      experiment("data: {file: " + file + ", variables: " + columns +
                 "}\nmodel: {name: made, width: 8}\n")
          .task()
          .prepare(0, kDouble);
    });
  };
  EXPECT_NE(said(table(400), "[x, c]").find("c is the same in all rows"),
            std::string::npos);
  EXPECT_NE(said(table(15), "[x, y]").find("15 rows are too few for 2 columns"),
            std::string::npos);
  EXPECT_NE(said(table(400), "[x, z]").find("z"), std::string::npos);
  EXPECT_NE(said(table(400, "1,,3\n"), "[x, y]").find("table.csv"),
            std::string::npos);
  EXPECT_NE(said(table(400, "1,east,3\n"), "[x, y]").find("east"),
            std::string::npos);
}

TEST(TasksDensity, ContradictionsAreRefused) {
  const auto said = [](const std::string& text) {
    return thrown<ConfigError>([&] { experiment(text); });
  };
  EXPECT_NE(said("model: {name: maf}\n").find("nothing to learn from"),
            std::string::npos);
  EXPECT_NE(said("target: {name: rings}\ndata: {file: a.csv}\n")
                .find("there is a target"),
            std::string::npos);
  EXPECT_NE(said("data: {file: a.csv}\n").find("which columns"),
            std::string::npos);
  EXPECT_NE(said("data: {file: a.csv, variables: [x, x]}\n")
                .find("x stands there twice"),
            std::string::npos);
  EXPECT_NE(said("target: {name: rings}\nmodel: {name: made, order: [x1]}\n")
                .find("expected all 2 variables"),
            std::string::npos);
}

}  // namespace
}  // namespace propagator::tasks
