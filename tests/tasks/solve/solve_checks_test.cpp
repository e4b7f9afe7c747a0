#include <torch/utils.h>

#include "propagator/pde/residual/problem_checks.h"
#include "tasks/training.h"
#include "testing.h"

namespace propagator::tasks {
namespace {

using testing::kDouble;

// What `prepare` says of a wave on a string, with one line in place of another.
std::string said_of_a_string(const std::string& from, const std::string& to) {
  std::string text =
      "task: solve\nproblem:\n"
      "  domain: ['x in [0, 1]', 't in [0, 1]']\n  fields: u\n"
      "  equations: u_tt = u_xx\n  conditions:\n"
      "    - at t=0: u = sin(pi*x)\n    - at t=0: u_t = 0\n"
      "    - on x=0: u = 0\n    - on x=1: u = 0\n"
      "  exact: u = sin(pi*x)*cos(pi*t)\n"
      "points: {per_axis: 5, adaptive: no, resample_every: 0,\n"
      "         sampling: grid}\n"
      "model: {name: pinn, width: 8}\n";
  if (!from.empty()) text.replace(text.find(from), from.size(), to);
  const run::Experiment e(config::Document::from_text(text, "test"));
  return testing::thrown<ConfigError>([&] { e.task().prepare(0, kDouble); });
}

TEST(TasksSolveChecks, AnExactSolutionMeetsTheConditionsToo) {
  for (const auto& [from, to] :
       {std::pair{"u = sin(pi*x)\n", "u = 2*sin(pi*x)\n"},
        std::pair{"u_t = 0", "u_t = 1"}, std::pair{"x=1: u = 0", "x=1: u = x"},
        std::pair{"- on x=1: u = 0", "- 'periodic x: u_x'"}}) {
    EXPECT_NE(said_of_a_string(from, to).find("does not meet the condition"),
              std::string::npos)
        << to;
  }
  EXPECT_NE(said_of_a_string("exact: u = ", "exact: u = x^2 + ")
                .find("does not solve the equations"),
            std::string::npos);
  EXPECT_NE(
      said_of_a_string("exact: u = ", "exact: u = sqrt(x - 0.5)^2 - x + 0.5 + ")
          .find("is not finite"),
      std::string::npos);
}

TEST(TasksSolveChecks, FormulasThatAreNotFiniteAreNamedWithThePlace) {
  // At a test point: 101 cells have a centre in the middle.
  EXPECT_NE(said_of_a_string("exact: u = ", "exact: u = (x-0.5)/(x-0.5)*")
                .find("is not finite at x=0.5"),
            std::string::npos);
  EXPECT_NE(said_of_a_string("u_tt = u_xx", "u_tt = u_xx + (u - u)/x")
                .find("is not finite at x=0, t=0"),
            std::string::npos);
  EXPECT_NE(said_of_a_string("x=1: u = 0", "x=1: u = u*sqrt(t - 0.5)")
                .find("x=1: u = u*sqrt(t - 0.5) is not finite at x=1, t=0"),
            std::string::npos);
}

TEST(TasksSolveChecks, ADifferenceOfFieldsIsNotTakenForZero) {
  const auto two = pde::Problem::parse(
      {.domain = {"x in [0, 1]"},
       .fields = {"u, v"},
       .equations = {"u_xx = 1/(u - v)", "v_x = log(u - v)"},
       .conditions = {"on x=0: u = 1", "on x=0: v = 0", "on x=1: u = 1"}});
  const auto points = torch::linspace(0, 1, 5, torch::kFloat64).view({5, 1});
  for (const auto& equation : two.equations) {
    EXPECT_EQ(where_not_finite(two, equation, points), "");
  }
}

TEST(TasksSolveChecks, EquationsMayAskForFieldsInARange) {
  // With some numbers for u the logarithm is one; no number helps at x = 0.
  const auto prepare = [](const std::string& equation) {
    const run::Experiment e(config::Document::from_text(
        "task: solve\nproblem:\n  domain: ['x in [0, 1]']\n  fields: u\n"
        "  equations: " +
            equation +
            "\n  conditions: ['on x=0: u = 0']\n"
            "points: {per_axis: 5, sampling: grid, resample_every: 0}\n"
            "model: {name: pinn, width: 8}\n",
        "test"));
    e.task().prepare(0, kDouble);
  };
  EXPECT_NO_THROW(prepare("u_x = log(0.5 - u)"));
  EXPECT_NO_THROW(prepare("u_x = 1/sqrt(0.1 + u)"));
  EXPECT_THROW(prepare("u_x = log(x) + u"), ConfigError);
}

}  // namespace
}  // namespace propagator::tasks
