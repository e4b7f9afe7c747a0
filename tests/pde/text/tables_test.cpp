#include "propagator/pde/reference/classical_answer.h"
#include "propagator/pde/text/problem.h"
#include "testing.h"

// Functions that numbers on a grid give.

namespace propagator::pde {
namespace {

using testing::near;
using torch::Tensor;

Tensor nodes(double low, double high, int64_t count) {
  return torch::linspace(low, high, count, torch::kFloat64);
}

// A rod of a material k(x) = 1 + x, by numbers.
ProblemText rod() {
  const auto x = nodes(0, 1, 6);
  return {.domain = {"x in [0, 1]"},
          .fields = {"u"},
          .equations = {"d(k*u_x, x) = 0"},
          .conditions = {"on x=0: u = 0", "on x=1: u = 1"},
          .exact = {"u = log(1 + x)/log(2)"},
          .tables = {{"rod.csv", {{"x", x}, {"k", 1 + x}}}}};
}

std::string refused_table(const ProblemText& text) {
  try {
    Problem::parse(text);
  } catch (const ProblemError& error) {
    return fmt::format("{} | {}", error.what(), error.hint());
  }
  return "none";
}

TEST(PdeTables, StandInFormulasLikeAnyFunction) {
  const auto problem = Problem::parse(rod());
  EXPECT_EQ(problem.equations[0].text(), "d(k, x)*u_x + k*u_xx");
  // As it prints it is read again.
  EXPECT_EQ(Expression::parse(problem.equations[0].text(), problem.symbols),
            problem.equations[0]);
  EXPECT_NE(problem.describe().find("tables\n  k(x) at 6 nodes\n"),
            std::string::npos)
      << problem.describe();
  const auto k = Expression::parse("2*k", problem.symbols);
  EXPECT_EQ(k.variables(), std::set<int64_t>{0});
  EXPECT_EQ(k.derivative(0).text(), "2*d(k, x)");
  EXPECT_EQ(Expression::parse("d(k, x, 4)", problem.symbols).text(), "0");
  EXPECT_FALSE(k == Expression::parse("2*d(k, x)", problem.symbols));
}

TEST(PdeTables, ClassicalSolutionIsThatOfTheFormula) {
  auto text = rod();
  text.exact.clear();
  const auto x = nodes(0, 1, 21).unsqueeze(1);
  const auto reference = reference_at(Problem::parse(text), x, 1e-10);
  const auto exact = (1 + x).log() / std::log(2.0);
  EXPECT_TRUE(near(reference.fields, exact, {0, 1e-8}));
}

TEST(PdeTables, CoefficientsAndConditionsMayNameThem) {
  auto text = rod();
  text.coefficients = {"flux = k*2"};
  text.conditions = {"on x=0: u = k", "on x=1: flux*u_x = 1"};
  text.exact.clear();
  const auto problem = Problem::parse(text);
  EXPECT_EQ(problem.conditions[0].residual.text(), "u - k");
  EXPECT_EQ(problem.conditions[1].residual.text(), "2*k*u_x - 1");
}

// The same numbers as columns in any order, and along axes.
TEST(PdeTables, PointsAndAxesAreOneGrid) {
  ProblemText text{.domain = {"x in [0, 1]", "y in [-1, 1]"},
                   .fields = {"u"},
                   .equations = {"u_xx + u_yy = f"},
                   .conditions = {"on boundary: u = 0"}};
  const auto x = nodes(0, 1, 4), y = nodes(-1, 1, 5);
  const auto grid = torch::meshgrid({x, y}, "ij");
  const auto f = grid[0] * grid[0] - 3 * grid[1];
  const auto order = torch::randperm(20, torch::kInt64);
  const auto shuffled = [&](const Tensor& all) {
    return all.flatten().index_select(0, order);
  };
  const auto points = torch::stack({nodes(0, 1, 7), nodes(-1, 1, 7)}, 1);
  const auto variables = autodiff::coordinates(Jet::constant(points));
  for (const auto& numbers :
       {std::map<std::string, Tensor>{{"x", x}, {"y", y}, {"f", f}},
        {{"x", grid[0]}, {"y", grid[1]}, {"f", f}},
        {{"x", shuffled(grid[0])},
         {"y", shuffled(grid[1])},
         {"f", shuffled(f)}}}) {
    text.tables = {{"f.npz", numbers}};
    const auto problem = Problem::parse(text);
    const auto value = Expression::parse("f", problem.symbols)
                           .evaluate({variables, {}})
                           .value();
    const auto own = points.select(1, 0), other = points.select(1, 1);
    EXPECT_TRUE(near(value, own * own - 3 * other, {1e-12, 1e-12}));
  }
}

TEST(PdeTables, WhatIsNoTableIsRefused) {
  const auto with = [](const std::map<std::string, Tensor>& numbers) {
    auto text = rod();
    text.tables = {{"rod.csv", numbers}};
    return refused_table(text);
  };
  const auto x = nodes(0, 1, 6), k = 1 + x;
  EXPECT_EQ(refused_table(rod()), "none");
  EXPECT_EQ(with({{"z", x}, {"k", k}})
                .find("tables[0]: there are no numbers "
                      "under a variable (x)"),
            0u);
  EXPECT_NE(with({{"x", x}}).find("under a name that is no variable"),
            std::string::npos);
  EXPECT_NE(with({{"x", x}, {"u", k}}).find("the name u is used twice"),
            std::string::npos);
  EXPECT_NE(with({{"x", x}, {"k", k}, {"my k", k}})
                .find("'my k' is no name for formulas"),
            std::string::npos);
  EXPECT_NE(with({{"x", x}, {"k", nodes(0, 1, 5)}})
                .find("k has 5 numbers, its variables have others"),
            std::string::npos);
  EXPECT_NE(with({{"x", torch::cat({x, x})}, {"k", torch::cat({k, k})}})
                .find("k has 12 numbers, where its grid has 6 nodes"),
            std::string::npos);
  EXPECT_NE(with({{"x", 0.5 * x}, {"k", k}})
                .find("k goes from x = 0 to 0.5, the domain from 0 to 1"),
            std::string::npos);
  EXPECT_NE(with({{"x", torch::zeros({1}, torch::kFloat64)},
                  {"k", torch::ones({1}, torch::kFloat64)}})
                .find("k has one value of x alone"),
            std::string::npos);
  EXPECT_NE(with({{"x", x}, {"k", k.log() / 0}}).find("k has no number at"),
            std::string::npos);
}

}  // namespace
}  // namespace propagator::pde
