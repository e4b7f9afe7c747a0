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

// Also where the loss has random numbers of its own.
TEST(TasksDensity, ResumesWithTheSameBits) {
  for (const auto* model :
       {"model: {name: maf, flows: 2, width: 8}\n",
        "model: {name: flow_matching, width: 8, layers: 2}\n"}) {
    const testing::TemporaryFolder folder;
    const auto text =
        "target: {name: lecture}\ndata: {samples: 500, validation: 200}\n" +
        std::string(model);
    const auto whole = testing::trained_to(6, experiment(text), kDouble,
                                           folder.path() / "whole", {});
    const auto resumed = testing::trained_to(
        6, experiment(text), kDouble, folder.path() / "resumed",
        train::checkpoint_path(folder.path() / "whole/checkpoints", 3));
    for (const auto& [name, value] : whole.model) {
      EXPECT_TRUE(torch::equal(value, resumed.model.at(name))) << name;
    }
  }
}

TEST(TasksDensity, NoiseOfTheLossIsAnotherAtEachStepOfTraining) {
  const auto e = experiment(
      "target: {name: lecture}\ndata: {samples: 100, validation: 100}\n"
      "model: {name: flow_matching, width: 8, layers: 2}\n");
  e.task().prepare(0, kDouble);
  const auto model = e.make_model(kDouble);
  e.task().calibrate(*model);
  const auto positions = torch::arange(50);
  const auto loss_at = [&](int64_t step, data::Split split) {
    e.task().begin_step(*model, step);
    return e.task().loss(*model, split, positions).total.item<double>();
  };
  using enum data::Split;
  EXPECT_NE(loss_at(1, kTrain), loss_at(2, kTrain));
  EXPECT_EQ(loss_at(1, kTrain), loss_at(1, kTrain));
  EXPECT_EQ(loss_at(1, kValidation), loss_at(2, kValidation));
}

// Before training: normal numbers of one width about the classical answer, on
// which hits have no say.
TEST(TasksDensity, APosteriorOfASimulatorIsTestedWhole) {
  const auto e = experiment(
      "inference: {name: vertex}\ndata: {samples: 400, validation: 50}\n"
      "eval: {samples: 300, draws: 40, two_sample: 200}\n"
      "model: {name: maf, flows: 1, width: 8}\n");
  e.task().prepare(0, kDouble);
  const auto model = e.make_model(kDouble);
  e.task().calibrate(*model);
  const auto found = e.task().evaluate(*model, data::Split::kTest).numbers;
  EXPECT_GT(found.at("gap").get<double>(), 0.1);
  EXPECT_LT(found.at("gap").get<double>(), 3);
  EXPECT_GT(found.at("coverage").at("90 %").get<double>(), 0.7);
  EXPECT_NEAR(found.at("median_error").at("mode").get<double>(),
              found.at("median_error").at("classical").get<double>(), 0.1);
  // What a user gives is what is observed; the classical answer is found.
  const auto surrogate = e.task().surrogate(model, kDouble);
  EXPECT_EQ(surrogate->inputs().size(), 3u + 16u);
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

TEST_F(TasksDensityFile, RowsThatCannotBeAreNamed) {
  const auto said = thrown<DataError>([&] {
    experiment("data: {file: " + table(400, "-9,1,3\n") +
               ", variables: [x, y], supports: [x > -8]}\n"
               "model: {name: made, width: 8}\n")
        .task()
        .prepare(0, kDouble);
  });
  EXPECT_NE(said.find("1 rows are where"), std::string::npos) << said;
  EXPECT_NE(said.find("row 401, [-9, 1]"), std::string::npos) << said;
}

TEST(TasksDensity, ContradictionsAreRefused) {
  const auto said = [](const std::string& text) {
    return thrown<ConfigError>([&] { experiment(text); });
  };
  EXPECT_NE(said("model: {name: maf}\n").find("nothing to learn from"),
            std::string::npos);
  EXPECT_NE(said("target: {name: rings}\ndata: {file: a.csv}\n")
                .find("something else to learn from"),
            std::string::npos);
  EXPECT_NE(said("data: {file: a.csv}\n").find("which columns"),
            std::string::npos);
  EXPECT_NE(said("data: {file: a.csv, variables: [x, x]}\n")
                .find("x stands there twice"),
            std::string::npos);
  EXPECT_NE(said("data: {file: a.csv, variables: [x], supports: [y > 0]}\n")
                .find("y is none of the variables"),
            std::string::npos);
  EXPECT_NE(said("target: {name: rings}\nmodel: {name: made, order: [x1]}\n")
                .find("expected all 2 variables"),
            std::string::npos);
}

TEST(TasksDensity, RowsOfOneTargetAreDrawnBesideOneAnother) {
  const auto row = [](const std::string& name, const std::string& text) {
    ReproducedRow made{.name = name, .summary = {}, .history = {}};
    made.summary = {
        {"metric", "below the truth"}, {"value", 0.1}, {"mode", "honest"}};
    made.maps = [text] {
      const auto e = experiment(text);
      e.task().prepare(0, kDouble);
      const auto model = e.make_model(kDouble);
      e.task().calibrate(*model);
      return dynamic_cast<Drawing&>(e.task()).maps(*model);
    };
    return made;
  };
  const std::string rings =
      "target: {name: rings}\ndata: {samples: 500, validation: 200}\n";
  const std::vector rows{row("lecture-maf", kLectureText),
                         row("lecture-made", kLectureText),
                         row("rings", rings)};
  const auto maps = *rows[0].maps();
  // A probability each, but for what is outside of the picture.
  const double cell = (maps.x.last - maps.x.first) *
                      (maps.y.first - maps.y.last) /
                      static_cast<double>(maps.truth.numel());
  EXPECT_NEAR(maps.truth.sum().item<double>() * cell, 1, 0.02);
  EXPECT_GT(maps.answer.sum().item<double>() * cell, 0.5);
  const auto figures =
      dynamic_cast<Drawing&>(experiment(kLectureText).task()).draw_rows(rows);
  ASSERT_EQ(figures.size(), 2u);
  EXPECT_EQ(figures[0].name, "density-lecture");
  EXPECT_EQ(figures[1].name, "density-rings");
  const auto& beside = std::get<report::HeatMaps>(figures[0].figure);
  ASSERT_EQ(beside.rows.size(), 2u);
  EXPECT_EQ(beside.rows[0].panels.size(), 3u);
}

}  // namespace
}  // namespace propagator::tasks
