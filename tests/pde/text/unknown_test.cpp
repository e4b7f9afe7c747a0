#include "propagator/pde/text/problem.h"
#include "testing.h"

namespace propagator::pde {
namespace {

ProblemText heat() {
  return {.domain = {"x in [0, 1]", "t in [0, 1]"},
          .fields = {"u"},
          .parameters = {"nu = 0.1"},
          .equations = {"u_t = nu*u_xx"},
          .unknown = {"nu = 0.5"}};
}

Problem parsed(const ProblemText& text) {
  return Problem::parse(text, Posed::kByReadings);
}

std::string complaint(const ProblemText& text) {
  try {
    parsed(text);
  } catch (const ProblemError& error) {
    return fmt::format("{} | {}", error.what(), error.hint());
  }
  return "none";
}

TEST(PdeUnknown, StandsInOpenEquationsAndItsTruthInTheOthers) {
  const auto problem = parsed(heat());
  ASSERT_EQ(problem.unknowns.size(), 1u);
  EXPECT_EQ(problem.unknowns[0].name, "nu");
  EXPECT_EQ(problem.unknowns[0].start, 0.5);
  EXPECT_EQ(problem.unknowns[0].truth, 0.1);
  EXPECT_EQ(problem.equations[0].text(), "u_t - 0.1*u_xx");
  EXPECT_EQ(problem.open_equations[0].text(), "u_t - nu*u_xx");
  EXPECT_EQ(problem.open_equations[0].unknowns(), std::set<int64_t>{0});
}

TEST(PdeUnknown, NeedsNoTruth) {
  auto text = heat();
  text.parameters = {};
  const auto problem = parsed(text);
  EXPECT_FALSE(problem.unknowns[0].truth.has_value());
  EXPECT_EQ(problem.equations[0].text(), "u_t - 0.5*u_xx");
}

TEST(PdeUnknown, OneThatBeginsAtZeroHidesNoDerivative) {
  auto text = heat();
  text.parameters = {};
  text.unknown = {"nu = 0"};
  const auto named = parsed(text).derivatives();
  EXPECT_TRUE(named.contains(Derivative{0, {2, 0}}));
}

TEST(PdeUnknown, IsEvaluatedAndConstantInDerivatives) {
  auto text = heat();
  text.equations = {"u_t = d(nu*u_x + nu^2*x, x)"};
  const auto problem = parsed(text);
  const auto& open = problem.open_equations[0];
  const auto value = [&](double nu) {
    return open
        .evaluate({{Jet::constant(torch::tensor(0.3, torch::kFloat64)),
                    Jet::constant(torch::tensor(0.7, torch::kFloat64))},
                   [](const Derivative& derivative) {
                     return Jet::constant(
                         torch::tensor(derivative.orders[0] == 2 ? 5.0 : 2.0,
                                       torch::kFloat64));
                   },
                   {},
                   {torch::tensor(nu, torch::kFloat64)}})
        .value()
        .item<double>();
  };
  for (const double nu : {0.25, 2.0}) {
    EXPECT_NEAR(value(nu), 2 - (5 * nu + nu * nu), 1e-12);
  }
  EXPECT_THROW(open.evaluate({{},
                              [](const Derivative&) {
                                return Jet::constant(torch::ones({1}));
                              }}),
               std::invalid_argument);
}

TEST(PdeUnknown, BadOnesAreNamed) {
  auto text = heat();
  text.equations = {"u_t = u_xx"};
  EXPECT_NE(complaint(text).find("nu appears in no equation"),
            std::string::npos);
  text = heat();
  text.parameters = {"nu = 0.1", "a = 2*nu"};
  EXPECT_NE(complaint(text).find("a is computed from nu"), std::string::npos);
  text = heat();
  text.conditions = {"on x=0: u = nu"};
  EXPECT_NE(complaint(text).find("nu is unknown, and a condition needs"),
            std::string::npos);
  text = heat();
  text.domain[0] = "x in [0, nu]";
  EXPECT_NE(complaint(text).find("nu is unknown, and the domain needs"),
            std::string::npos);
  text = heat();
  text.parameters = {};
  text.exact = {"u = exp(-nu*t)"};
  EXPECT_NE(complaint(text).find("nu is unknown, and an exact solution needs"),
            std::string::npos);
  text = heat();
  text.unknown = {"nu = 1", "nu = 2"};
  EXPECT_NE(complaint(text).find("used twice"), std::string::npos);
  text = heat();
  text.unknown = {"nu"};
  EXPECT_NE(complaint(text).find("expected '='"), std::string::npos);
  text = heat();
  text.unknown = {"x = 1"};
  EXPECT_NE(complaint(text), "none");
}

TEST(PdeUnknown, WithoutReadingsThereIsNothingToFindItFrom) {
  auto text = heat();
  text.conditions = {"at t=0: u = sin(pi*x)", "on boundary: u = 0"};
  EXPECT_THROW(Problem::parse(text), ProblemError);
}

}  // namespace
}  // namespace propagator::pde
