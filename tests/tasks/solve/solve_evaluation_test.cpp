#include <torch/utils.h>

#include "tasks/training.h"
#include "testing.h"

namespace propagator::tasks {
namespace {

using testing::prepared_model;

TEST(TasksSolveEvaluation, ErrorsOfFieldsAndAlongAVariableAddUpToTheWhole) {
  const run::Experiment e(config::Document::from_text(
      "task: solve\nprecision: fp64\nproblem:\n"
      "  domain: ['x in [0, 2]']\n  fields: u, v\n"
      "  equations: [u_x = v, v_x = -u]\n"
      "  conditions: ['on x=0: u = 0', 'on x=0: v = 1']\n"
      "  exact: [u = sin(x), v = cos(x)]\n"
      "model: {name: pinn, width: 8}\neval: {per_axis: 50}\n",
      "test"));
  const auto model = prepared_model(e);
  const auto evaluation = e.task().evaluate(*model, data::Split::kTest);
  const auto& result = evaluation.numbers;
  const auto squared = [](const nlohmann::json& x) {
    return std::pow(x.get<double>(), 2);
  };
  double along = 0, u = 0, v = 0;
  for (const auto& part : result.at("error_along")) along += squared(part) / 50;
  for (int n = 0; n < 50; ++n) {
    const double x = (n + 0.5) / 25;
    u += std::pow(std::sin(x), 2);
    v += std::pow(std::cos(x), 2);
  }
  const auto& fields = result.at("fields");
  const double whole = squared(result.at("relative_l2"));
  EXPECT_NEAR(along, whole, 1e-9 * whole);
  EXPECT_NEAR((squared(fields.at("u")) * u + squared(fields.at("v")) * v) / 50,
              whole, 1e-9 * whole);
  EXPECT_NE(evaluation.table.text().find("relative L2 of v"),
            std::string::npos);
}

TEST(TasksSolveEvaluation, AnErrorOfZeroIsNotRelative) {
  const run::Experiment e(config::Document::from_text(
      "task: solve\nprecision: fp64\nproblem:\n"
      "  domain: ['x in [0, 2]']\n  fields: u, v\n"
      "  equations: [u_x = 1 + v, v_x = -v]\n"
      "  conditions: ['on x=0: u = 0', 'on x=0: v = 0']\n"
      "  exact: [u = x, v = 0]\n"
      "model: {name: pinn, width: 8}\neval: {per_axis: 20}\n",
      "test"));
  const auto evaluation =
      e.task().evaluate(*prepared_model(e), data::Split::kTest);
  const auto& result = evaluation.numbers;
  EXPECT_TRUE(result.at("fields").contains("u"));
  EXPECT_FALSE(result.at("fields").contains("v"));
  EXPECT_GT(result.at("fields_of_zero").at("v").get<double>(), 0);
  EXPECT_NE(evaluation.table.text().find("largest error of v"),
            std::string::npos);
  // Nothing at all: no relative error, and no classical method to reach it.
  const run::Experiment zero(config::Document::from_text(
      "task: solve\nprecision: fp64\nproblem:\n"
      "  domain: ['x in [0, 2]']\n  fields: u\n  equations: u_x = u\n"
      "  conditions: ['on x=0: u = 0']\n  exact: u = 0\n"
      "model: {name: pinn, width: 8}\neval: {per_axis: 20}\n",
      "test"));
  const auto of_zero =
      zero.task().evaluate(*prepared_model(zero), data::Split::kTest);
  const auto& nothing = of_zero.numbers;
  EXPECT_FALSE(nothing.contains("relative_l2"));
  EXPECT_FALSE(nothing.contains("error_along"));
  EXPECT_GT(nothing.at("largest_error").get<double>(), 0);
  EXPECT_EQ(nothing.dump().find("null"), std::string::npos) << nothing;
  EXPECT_EQ(of_zero.remarks[1],
            "0 is a solution, and the one compared with: errors are absolute");
}

TEST(TasksSolveEvaluation, ConditionsThatLookAlikeHaveNamesOfTheirOwn) {
  const run::Experiment e(config::Document::from_text(
      "task: solve\nprecision: fp64\nproblem:\n"
      "  domain: ['x in [0, 1]']\n  fields: u, v\n"
      "  equations: [u_xx = v, v_x = u]\n"
      "  conditions: ['on x=0: u_x = u', 'on x=0: u_x = v', 'on x=1: u = 1']\n"
      "model: {name: pinn, width: 8}\neval: {per_axis: 4, classical: no}\n",
      "test"));
  const auto evaluation =
      e.task().evaluate(*prepared_model(e), data::Split::kTest);
  const auto& conditions = evaluation.numbers.at("conditions");
  EXPECT_EQ(conditions.size(), 3u) << conditions;
  EXPECT_TRUE(conditions.contains("on x=0: u_x - v = 0")) << conditions;
  EXPECT_TRUE(conditions.contains("on x=1: u")) << conditions;
}

}  // namespace
}  // namespace propagator::tasks
