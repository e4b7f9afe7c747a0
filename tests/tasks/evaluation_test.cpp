#include "propagator/tasks/evaluation.h"

#include "propagator/core/error.h"
#include "testing.h"

namespace propagator::tasks {
namespace {

using nlohmann::json;
using testing::thrown;

Evaluation evaluation() {
  Evaluation evaluation;
  evaluation.table.row({"ours", "1"});
  evaluation.metrics = {{"MSE", 1}};
  evaluation.headline = "It is off by 2 %.";
  evaluation.curves.series = {{"ours", {1, 2}, {3, 4}}};
  evaluation.curves.bands = {{"80 % of cases", {1, 2}, {2, 3}, {4, 5}}};
  return evaluation;
}

TEST(TasksEvaluation, ComesBackFromJson) {
  const auto again = Evaluation::from_json(evaluation().to_json());
  EXPECT_EQ(again.curves.series[0].y, (std::vector<double>{3, 4}));
  EXPECT_EQ(again.table.rows(), evaluation().table.rows());
  EXPECT_EQ(again.headline, "It is off by 2 %.");
  EXPECT_EQ(again.curves.bands[0].high, (std::vector<double>{4, 5}));
  // Results of older programs have neither.
  auto old = evaluation().to_json();
  old.at("evaluation").erase("headline");
  old.at("evaluation").at("curves").erase("bands");
  EXPECT_EQ(Evaluation::from_json(old).headline, "");
  EXPECT_TRUE(Evaluation::from_json(old).curves.bands.empty());
}

TEST(TasksEvaluation, WhatNoneOfOursSaysIsDamage) {
  const auto problem = [](const char* at, const json& value) {
    auto stored = evaluation().to_json();
    stored[json::json_pointer(at)] = value;
    return thrown<DataError>([&] { Evaluation::from_json(stored); });
  };
  EXPECT_EQ(problem("/evaluation/curves/series/0/y", {3}),
            "a curve has not as many x as y");
  EXPECT_EQ(problem("/evaluation/curves/bands/0/low", {3}),
            "a band has not as many x as y");
  EXPECT_EQ(problem("/evaluation/table", json::array()), "it has no table");
  EXPECT_EQ(problem("/evaluation/metrics", json::array()), "it has no metric");
  for (const auto& value :
       {json(1), json("a"), json(nullptr), json{{"a", 1}}}) {
    EXPECT_NE(problem("/evaluation/curves/series/0/x", value), "") << value;
    EXPECT_NE(problem("/evaluation/table", value), "") << value;
    EXPECT_NE(problem("/evaluation/curves/x", value), "") << value;
  }
}

}  // namespace
}  // namespace propagator::tasks
