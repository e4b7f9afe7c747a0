#include "propagator/run/history_figures.h"

#include <nlohmann/json.hpp>

#include "propagator/core/files.h"
#include "propagator/train/schedule.h"
#include "testing.h"

namespace propagator::run {
namespace {

using propagator::testing::TemporaryFolder;
using train::History;
using train::read_history;
using train::ScheduleKind;
using train::ScheduleOptions;

// A run of 100 epochs of ten steps under a schedule, logged at each epoch.
History history_of(ScheduleKind kind) {
  const TemporaryFolder folder;
  std::string lines;
  const ScheduleOptions options{.kind = kind, .lr = 1e-3, .warmup = 50};
  for (int64_t epoch = 1; epoch <= 100; ++epoch) {
    const int64_t step = 10 * epoch;
    const double loss = 1.0 / static_cast<double>(step);
    lines +=
        nlohmann::json{
            {"kind", "train"},
            {"step", step},
            {"loss", loss},
            {"lr", train::learning_rate(options, step - 1, epoch, 1000)},
            {"terms", {{"mse", loss}, {"physics", 2 * loss}}}}
            .dump() +
        "\n";
    if (epoch % 10 == 0) {
      // The best validation is not the last one.
      lines += nlohmann::json{{"kind", "validation"},
                              {"step", step},
                              {"loss", epoch == 70 ? 1e-9 : loss}}
                   .dump() +
               "\n";
    }
  }
  lines += "{\"kind\": \"train\", \"step\": 10";  // cut short by a crash
  write_file_atomically(folder / "metrics.jsonl", lines);
  return read_history(folder / "metrics.jsonl");
}

std::vector<std::pair<double, std::string>> marks(const History& history) {
  std::vector<std::pair<double, std::string>> list;
  for (const auto& event : events_of(history)) {
    list.emplace_back(event.x, event.label);
  }
  return list;
}

TEST(RunHistoryFigures, ReadsCurvesAndTermsAndPassesOverABrokenLine) {
  const auto history = history_of(ScheduleKind::kPublished);
  EXPECT_EQ(history.train.step.size(), 100u);
  EXPECT_EQ(history.validation.step.size(), 10u);
  const auto& [step, physics] = history.train.terms.at("physics");
  EXPECT_DOUBLE_EQ(step.at(4), 50);
  EXPECT_DOUBLE_EQ(physics.at(4), 2.0 / 50);
  EXPECT_TRUE(read_history("no/such/file").empty());
}

// A loss that is not finite is null in JSON.
TEST(RunHistoryFigures, WhatShouldBeANumberAndIsNoneIsNaN) {
  const auto history = train::history_of(
      R"({"kind": "train", "step": 1, "loss": null, "terms": {"a": "b"}})"
      "\n"
      R"({"kind": 7, "step": 2, "loss": [1], "lr": {}, "terms": [1]})"
      "\n"
      R"({"kind": "train", "step": "3", "loss": 1})"
      "\n"
      R"({"kind": "train", "loss": 1})"
      "\n");
  EXPECT_EQ(history.train.step, (std::vector<double>{1, 2}));
  EXPECT_TRUE(std::isnan(history.train.loss.at(0)));
  EXPECT_TRUE(std::isnan(history.train.loss.at(1)));
  EXPECT_TRUE(std::isnan(history.train.rate.at(1)));
  EXPECT_TRUE(std::isnan(history.train.terms.at("a").value.at(0)));
}

// `resume` may change what the loss is made of.
TEST(RunHistoryFigures, TermsThatComeAndGoHaveTheirOwnSteps) {
  const TemporaryFolder folder;
  const auto metrics = folder / "metrics.jsonl";
  write_file_atomically(
      metrics,
      R"({"kind": "train", "step": 1, "loss": 1, "terms": {"early": 10}})"
      "\n"
      R"({"kind": "train", "step": 2, "loss": 1, "terms": {"late": 20}})"
      "\n"
      R"({"kind": "train", "step": 3, "loss": 1, "terms": {"late": 30}})"
      "\n");
  const auto terms = read_history(metrics).train.terms;
  EXPECT_EQ(terms.at("early").step, (std::vector<double>{1}));
  EXPECT_EQ(terms.at("late").step, (std::vector<double>{2, 3}));
  EXPECT_EQ(terms.at("late").value, (std::vector<double>{20, 30}));
}

TEST(RunHistoryFigures, MarksEveryChangeOfTheDocumentsRates) {
  const std::vector<std::pair<double, std::string>> expected{
      {20, "rate 1e-05"},      {30, "rate 0.0001"},  {40, "rate 0.0005"},
      {50, "rate 0.001"},      {310, "rate 0.0005"}, {410, "rate 0.0001"},
      {700, "best validation"}};
  EXPECT_EQ(marks(history_of(ScheduleKind::kPublished)), expected);
}

TEST(RunHistoryFigures, MarksThePeakOfARateThatMovesAllTheTime) {
  const auto list = marks(history_of(ScheduleKind::kCosine));
  ASSERT_EQ(list.size(), 2u);
  EXPECT_EQ(list[0], std::pair(50.0, std::string("rate 0.001")));
  EXPECT_EQ(list[1].second, "best validation");
}

}  // namespace
}  // namespace propagator::run
