#include "propagator/tasks/locate/locate.h"

#include <set>

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
      "task: locate\nprecision: fp64\n"
      "data: {events: 64, validation: 32, resample_every: 2}\n"
      "eval: {events: 96, classical: 48, batch: 40}\n"
      "train: {batch: 8, max_steps: 6, checkpoint_every: 1, "
      "keep_checkpoints: 9}\n" +
          more,
      "test"));
}
const char* const kSmall =
    "model: {name: hit_former, width: 8, layers: 1, heads: 2, feed_forward: "
    "8}\n";
const char* const kDocument =
    "model: {name: event_former, width: 8, heads: 2, feed_forward: 8, layers: "
    "1}\n";

TEST(TasksLocate, LossesAreThoseOfTheAnswers) {
  for (const char* text : {kSmall, kDocument}) {
    const auto e = experiment(text);
    e.task().prepare(0, kDouble);
    const auto model = e.make_model(kDouble);
    model->eval();
    const auto positions = torch::tensor({3, 0, 17}, torch::kInt64);
    const auto loss = e.task().loss(*model, data::Split::kTrain, positions);
    const auto detector = physics::make_detector({});
    const auto events = physics::draw_events(detector, 0, 0, 64);
    const auto truth = events.vertices.index_select(0, positions);
    const auto located = models::as_locator(*model).forward(
        {events.times.index_select(0, positions),
         events.hits.index_select(0, positions), detector.positions()});
    const auto squares = (located.position - truth).square().mean();
    EXPECT_TRUE(near(loss.terms[1].value, squares.sqrt(), testing::kFloat64));
    EXPECT_TRUE(near(loss.total,
                     located.factor.defined()
                         ? models::gaussian_nll(located, truth)
                         : squares,
                     testing::kFloat64));
    EXPECT_TRUE(loss.total.requires_grad());
  }
}

TEST(TasksLocate, SplitsShareNoEventAndTestsRepeat) {
  const auto e = experiment(kDocument);
  e.task().prepare(0, kDouble);
  EXPECT_EQ(e.task().size(data::Split::kTrain), 64);
  EXPECT_EQ(e.task().size(data::Split::kValidation), 32);
  EXPECT_EQ(e.task().size(data::Split::kTest), 96);
  const auto model = e.make_model(kDouble);
  model->eval();
  // An event is known by its loss.
  const auto losses = [&](data::Split split) {
    std::vector<double> all;
    for (int64_t n = 0; n < e.task().size(split); ++n) {
      all.push_back(e.task()
                        .loss(*model, split, torch::tensor({n}, torch::kInt64))
                        .total.item<double>());
    }
    return all;
  };
  const auto train = losses(data::Split::kTrain);
  const auto validation = losses(data::Split::kValidation);
  const auto test = losses(data::Split::kTest);
  // New events for training alone, the same whenever a step is reached.
  e.task().begin_step(*model, 1);
  EXPECT_EQ(losses(data::Split::kTrain), train);
  e.task().begin_step(*model, 4);
  const auto later = losses(data::Split::kTrain);
  EXPECT_EQ(losses(data::Split::kValidation), validation);
  EXPECT_EQ(losses(data::Split::kTest), test);
  e.task().begin_step(*model, 2);
  const auto between = losses(data::Split::kTrain);
  e.task().begin_step(*model, 5);
  EXPECT_EQ(losses(data::Split::kTrain), later);
  std::set<double> distinct;
  for (const auto& split : {train, validation, test, later, between}) {
    distinct.insert(split.begin(), split.end());
  }
  EXPECT_EQ(distinct.size(), 64 + 32 + 96 + 64 + 64);
}

TEST(TasksLocate, AResultHasTheModelAndTheFitsOfTheSameEvents) {
  const auto e = experiment(kSmall);
  e.task().prepare(0, kDouble);
  const auto model = e.make_model(kDouble);
  const auto evaluation = e.task().evaluate(*model, data::Split::kTest);
  const auto& result = evaluation.numbers;
  EXPECT_EQ(result.at("events"), 96);
  EXPECT_EQ(result.at("classical_events"), 48);
  EXPECT_LT(result.at("classical").at("least_squares").at("median"), 1e-9);
  EXPECT_GT(result.at("model").at("median"), 0.1);  // not trained
  EXPECT_GT(result.at("model").at("events_per_second"), 0);
  EXPECT_EQ(result.at("by_hits").at("model").size(), 9u);
  EXPECT_EQ(result.at("pulls").at("sigma").size(), 3u);
  EXPECT_EQ(evaluation.metrics.front().name, "median distance (m)");
  const auto text = evaluation.table.text();
  for (const char* name : {"hit_former (honest)", "least squares",
                           "maximum likelihood", "first 48 events"}) {
    EXPECT_NE(text.find(name), std::string::npos) << text;
  }
  // From a file too, where NaN is null.
  const auto read =
      Evaluation::from_json(nlohmann::json::parse(evaluation.to_json().dump()));
  ASSERT_EQ(read.curves.series.size(), 3u);
  EXPECT_EQ(read.curves.series[1].x, evaluation.curves.series[1].x);
  EXPECT_EQ(read.table.text(), text);
}

TEST(TasksLocate, ModeAndMetricFollowTheConfiguration) {
  const auto e =
      experiment(std::string(kDocument) +
                 "detector: {efficiency: published, light_yield: 4}\n");
  EXPECT_EQ(e.task().mode(), "published");
  const auto other =
      experiment(std::string(kSmall) + "eval.metric: resolution\n");
  EXPECT_EQ(other.task().mode(), "honest");
  other.task().prepare(0, kDouble);
  const auto evaluation =
      other.task().evaluate(*other.make_model(kDouble), data::Split::kTest);
  EXPECT_EQ(evaluation.metrics.front().name, "resolution (m)");
  EXPECT_EQ(evaluation.metrics.front().value,
            evaluation.numbers.at("model").at("resolution"));
}

TEST(TasksLocate, ContradictionsAreRefused) {
  const auto refused = [](const std::string& more) {
    return thrown<ConfigError>([&] { experiment(more); });
  };
  EXPECT_NE(refused(std::string(kDocument) + "loss: {kind: likelihood}\n")
                .find("no uncertainty"),
            std::string::npos);
  EXPECT_NE(refused("detector: {placement: file}\n").find("needs one"),
            std::string::npos);
  EXPECT_NE(refused("sensors: a.csv\n").find("only detector.placement: file"),
            std::string::npos);
}

TEST(TasksLocate, RowsAreOneFigureWithTheClassicalLimit) {
  const auto e = experiment(kDocument);
  ReproducedRow row{.name = "a", .summary = {}, .history = {}};
  row.summary["result"]["classical"]["least_squares"]["resolution"] = 0.25;
  row.history.validation.terms["resolution"] = {{10, 20}, {2, 1}};
  auto other = row;
  other.name = "b";
  const std::vector rows{row, other};
  const auto figures = dynamic_cast<Drawing&>(e.task()).draw_rows(rows);
  ASSERT_EQ(figures.size(), 1u);
  const auto& plot = std::get<report::LinePlot>(figures[0].figure);
  ASSERT_EQ(plot.series.size(), 3u);
  EXPECT_EQ(plot.series[1].name, "b");
  EXPECT_EQ(plot.series[1].y, (std::vector<double>{2, 1}));
  EXPECT_EQ(plot.series[2].x, (std::vector<double>{10, 20}));
  EXPECT_EQ(plot.series[2].y, (std::vector<double>{0.25, 0.25}));
  EXPECT_TRUE(dynamic_cast<Drawing&>(e.task())
                  .draw_rows(std::span(rows).first(1))
                  .empty());
}

class TasksLocateRun : public ::testing::TestWithParam<const char*> {
 protected:
  train::Checkpoint run(const std::string& name,
                        const std::optional<std::filesystem::path>& from) {
    return testing::trained_to(6, experiment(GetParam()), kDouble,
                               folder / name, from);
  }

  testing::TemporaryFolder folder;
};
INSTANTIATE_TEST_SUITE_P(Tasks, TasksLocateRun,
                         ::testing::Values(kSmall, kDocument));

TEST_P(TasksLocateRun, ResumesToTheSameBitsWhileEventsChangeAndDropoutDraws) {
  const auto whole = run("whole", {});
  for (const int64_t step : {3, 4}) {
    const auto again =
        run(fmt::format("again-{}", step),
            train::checkpoint_path(folder / "whole" / "checkpoints", step));
    for (const auto& [name, value] : whole.model) {
      EXPECT_TRUE(torch::equal(again.model.at(name), value)) << name;
    }
  }
}

}  // namespace
}  // namespace propagator::tasks
