#include "propagator/pde/text/problem.h"
#include "testing.h"

// Coefficients that are formulas, and a time with another name.

namespace propagator::pde {
namespace {

ProblemText darcy() {
  return {.domain = {"x in [0, 1]", "y in [0, 1]"},
          .fields = {"u"},
          .parameters = {"a = 0.5"},
          .equations = {"-div(k*grad(u)) = f"},
          .conditions = {"on boundary: u = 0"},
          .coefficients = {"k = 1 + a*x", "f = k*y"}};
}

std::string refusal(const ProblemText& text,
                    Posed posed = Posed::kByConditions) {
  try {
    Problem::parse(text, posed);
  } catch (const ProblemError& error) {
    return fmt::format("{} | {}", error.what(), error.hint());
  }
  return "none";
}

TEST(PdeCoefficients, StandForTheirFormulas) {
  auto text = darcy();
  const auto problem = Problem::parse(text);
  EXPECT_EQ(problem.equations[0].text(),
            "-(0.5*u_x + (1 + 0.5*x)*u_xx + (1 + 0.5*x)*u_yy) - "
            "(1 + 0.5*x)*y");
  EXPECT_NE(problem.describe().find("coefficients\n"
                                    "  f = (1 + 0.5*x)*y\n"
                                    "  k = 1 + 0.5*x\n"),
            std::string::npos)
      << problem.describe();
  // What stands in brackets stays together.
  text.equations = {"k^2*u_xx + u_yy/k = 2*f - k"};
  auto plain = text;
  plain.coefficients.clear();
  plain.equations = {
      "(1 + a*x)^2*u_xx + u_yy/(1 + a*x) = 2*((1 + a*x)*y) - (1 + a*x)"};
  EXPECT_EQ(Problem::parse(text).equations, Problem::parse(plain).equations);
}

TEST(PdeCoefficients, StandInConditionsExactSolutionsAndQuantities) {
  auto text = darcy();
  text.equations = {"k*laplacian(u) = 0"};
  text.conditions = {"on x=0: k*u_x = f", "on x=1: u = y", "on y=0: u = 0",
                     "on y=1: u_y = x"};
  text.exact = {"u = x*f/k"};
  const auto problem = Problem::parse(text);
  EXPECT_EQ(problem.conditions[0].residual.text(),
            "(1 + 0.5*x)*u_x - (1 + 0.5*x)*y");
  EXPECT_EQ(problem.exact[0].text(), "x*(1 + 0.5*x)*y/(1 + 0.5*x)");
  EXPECT_EQ(Expression::parse("k*u_x", problem.symbols).text(),
            "(1 + 0.5*x)*u_x");
}

TEST(PdeCoefficients, BadOnes) {
  const auto bad = [](const std::string& item) {
    auto text = darcy();
    text.coefficients[1] = item;
    const auto found = refusal(text);
    EXPECT_TRUE(found.starts_with("coefficients[1]: ")) << item << found;
    EXPECT_NE(found.find('^'), std::string::npos) << item;
    return found;
  };
  EXPECT_EQ(bad("f = k*u_x").substr(0, 91),
            "coefficients[1]: a coefficient is a formula of variables and "
            "parameters, and u_x is a field");
  EXPECT_NE(bad("f = 1 + w").find("unknown name 'w'"), std::string::npos);
  EXPECT_NE(bad("f = grad(x)").find("got a vector"), std::string::npos);
  EXPECT_NE(bad("k = 3").find("is used twice"), std::string::npos);
  for (const char* item : {"", "f", "f =", "f = f", "= 2", "f = 1 = 2", "x = 1",
                           "f y", "f = g", "2 = f", "f = i"}) {
    bad(item);
  }
  auto text = darcy();
  text.parameters.push_back("m = 2*k");
  EXPECT_NE(refusal(text).find("a parameter is a number, and k is a "
                               "coefficient"),
            std::string::npos)
      << refusal(text);
  text = darcy();
  text.equations = {"k(x)*u_xx = 0"};
  EXPECT_NE(refusal(text).find("k is a number, not a function"),
            std::string::npos);
}

TEST(PdeCoefficients, RemarksOnDerivativesOfSteps) {
  auto text = darcy();
  text.coefficients[0] = "k = if(x < 0.5, 1, 4)";
  const auto remarks = [&] { return Problem::parse(text).remarks; };
  ASSERT_EQ(remarks().size(), 1u);
  EXPECT_TRUE(remarks()[0].starts_with("k may jump")) << remarks()[0];
  text.coefficients[1] = "f = 2*k";
  text.equations = {"u_xx + d(u_y, y) = k + u"};
  EXPECT_TRUE(remarks().empty());
  text.equations = {"u_xx + d((1 + f)*u_y, y) = 0"};
  EXPECT_TRUE(remarks()[0].starts_with("f may jump")) << remarks()[0];
  text.equations = {"u_xx + u_yy = laplacian(heaviside(x - 0.5)*u)"};
  EXPECT_EQ(remarks().size(), 1u);
}

TEST(PdeCoefficients, GrowOnlySoFar) {
  auto text = darcy();
  text.coefficients = {"k0 = sin(x) + y"};
  for (int n = 1; n < 40; ++n) {
    text.coefficients.push_back(
        fmt::format("k{} = sin(k{})*cos(k{})", n, n - 1, n - 1));
  }
  EXPECT_NE(refusal(text).find("this coefficient is too long"),
            std::string::npos);
  text = darcy();
  text.coefficients = {"k0 = x"};
  for (int n = 1; n < 300; ++n) {
    text.coefficients.push_back(fmt::format("k{} = sin(k{})", n, n - 1));
  }
  EXPECT_NE(refusal(text).find("this coefficient is too long"),
            std::string::npos);
  text = darcy();
  std::string sum = "x";
  for (int n = 0; n < 500; ++n) sum += fmt::format(" + sin({}*x)", n + 2);
  std::string uses = "u_xx + u_yy";
  for (int n = 0; n < 100; ++n) uses += " + f*u";
  text.coefficients[1] = "f = " + sum;
  text.equations = {uses};
  EXPECT_NE(refusal(text).find("the coefficients of this line have too many "
                               "terms"),
            std::string::npos);
}

TEST(PdeCoefficients, MayBeMadeOfUnknowns) {
  auto text = darcy();
  text.unknown = {"a = 0.1"};
  const auto problem = Problem::parse(text, Posed::kByReadings);
  EXPECT_EQ(problem.open_equations[0].unknowns(), std::set<int64_t>{0});
  EXPECT_NE(problem.open_equations[0].text().find("(1 + a*x)*u_yy"),
            std::string::npos)
      << problem.open_equations[0].text();
  EXPECT_TRUE(problem.equations[0].unknowns().empty());
  text.conditions = {"on x=0: u = k"};
  EXPECT_NE(refusal(text, Posed::kByReadings)
                .find("a is unknown, on which k depends, and a condition "
                      "needs its number"),
            std::string::npos);
}

TEST(PdeTimeVariable, IsTheOneThatIsDeclared) {
  ProblemText text{.domain = {"x in [0, 1]", "tau in [0, 1]"},
                   .fields = {"u"},
                   .equations = {"u_tau = laplacian(u)"},
                   .conditions = {"on boundary: u = 0"}};
  EXPECT_EQ(Problem::parse(text).time(), -1);
  EXPECT_EQ(Problem::parse(text).conditions.size(), 4u);
  text.time = "tau";
  EXPECT_NE(refusal(text).find("missing condition on u at tau=0"),
            std::string::npos);
  text.conditions.push_back("at tau=0: u = 0");
  auto problem = Problem::parse(text);
  EXPECT_EQ(problem.time(), 1);
  EXPECT_EQ(problem.conditions.size(), 3u);
  EXPECT_EQ(problem.equations[0].text(), "u_tau - u_xx");
  EXPECT_NE(problem.describe().find("tau in [0, 1] (time)"), std::string::npos);
  // t is then a variable like others.
  text.domain[0] = "t in [0, 1]";
  problem = Problem::parse(text);
  EXPECT_EQ(problem.time(), 1);
  EXPECT_EQ(problem.equations[0].text(), "u_tau - u_tt");
  text.time = "clock";
  EXPECT_EQ(refusal(text),
            "time: clock is no variable | the variables are t, tau");
}

}  // namespace
}  // namespace propagator::pde
