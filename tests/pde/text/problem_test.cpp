#include "propagator/pde/text/problem.h"

#include <numbers>

#include "pde/text/small_problems.h"
#include "testing.h"

namespace propagator::pde {
namespace {

using std::numbers::pi;
using testing::burgers;
using testing::near;
using testing::wave;

// Those that conditions alone pose are scaled.
TEST(PdeProblem, RemarksOnNumbersFarFromOneBesideReadings) {
  for (const char* domain : {"x in [0, 1e-9]", "x in [5000, 5001]"}) {
    auto text = wave();
    text.domain.front() = domain;
    text.conditions.front() = "at t=0: u = 0";
    EXPECT_TRUE(Problem::parse(text).remarks.empty()) << domain;
    const auto remarks = Problem::parse(text, Posed::kByReadings).remarks;
    ASSERT_EQ(remarks.size(), 1u) << domain;
    EXPECT_NE(remarks[0].find("shift and scale x"), std::string::npos);
  }
}

TEST(PdeProblem, LargeNumbersDoNotHideTheFields) {
  auto text = wave();
  text.conditions.front() = "at t=0: u = 1e20*(1 + x)";
  EXPECT_NO_THROW(Problem::parse(text));
  text.conditions.push_back("at t=0: u = 2e20*(1 + x)");
  EXPECT_THROW(Problem::parse(text), ProblemError);
}

TEST(PdeProblem, RemarksOnMoreConditionsThanDerivativesTake) {
  auto text = wave();
  text.conditions.push_back("on x=1: u_x = 5");
  EXPECT_EQ(Problem::parse(text).remarks,
            std::vector<std::string>{"3 conditions on the faces of x, where "
                                     "derivatives by it take 2"});
  text = wave();
  text.equations = {"u_t = u_xx"};
  EXPECT_EQ(Problem::parse(text).remarks,
            std::vector<std::string>{"2 conditions on the faces of t, where "
                                     "derivatives by it take 1"});
  // Each of a ring's is one of them.
  text = wave();
  text.conditions = {"at t=0: u = 0", "at t=0: u_t = 0", "periodic x: u",
                     "periodic x: u_x"};
  EXPECT_TRUE(Problem::parse(text).remarks.empty());
  text.conditions.pop_back();
  EXPECT_EQ(Problem::parse(text).remarks,
            std::vector<std::string>{"u has derivatives by x up to order 2, "
                                     "but 1 condition on the faces of x"});
  // Those of one field may stand on the faces of another.
  const ProblemText shared{.domain = {"x in [0, 1]"},
                           .fields = {"u, v"},
                           .equations = {"u_xx = v", "v_xx = u"},
                           .conditions = {"on x=0: u = 0", "on x=0: u_x = 0",
                                          "on x=1: u = 0", "on x=1: u_x = v"}};
  EXPECT_EQ(Problem::parse(shared).remarks,
            std::vector<std::string>{"v has derivatives by x up to order 2, "
                                     "but 1 condition on the faces of x"});
}

TEST(PdeProblem, RemarksOnValuesThatJumpWhereFacesMeet) {
  const auto remarks = [](const std::vector<std::string>& conditions) {
    auto text = wave();
    text.conditions = conditions;
    text.conditions.push_back("at t=0: u_t = 0");
    return Problem::parse(text).remarks;
  };
  EXPECT_EQ(remarks({"at t=0: u = 1", "on x=0: 2*u = 3*t", "on x=1: u = 1"}),
            std::vector<std::string>{
                "at t=0: u = 1 and on x=0: 2*u = 3*t meet at x=0, t=0 with u = "
                "1 and 0: the solution jumps there, and networks smooth a "
                "jump"});
  // Of a boundary one face will do; the unit of u does not matter.
  EXPECT_EQ(remarks({"at t=0: u = 1e-9*cos(x)", "on boundary: u = 0"}).size(),
            1u);
  // They agree but for rounding, or say something else than a value.
  EXPECT_TRUE(
      remarks({"at t=0: u = sin(1e3*pi*x)", "on boundary: u = 0"}).empty());
  EXPECT_TRUE(
      remarks({"at t=0: u = 1", "on x=0: u_x = 0", "on x=1: u^2 = u"}).empty());
  EXPECT_TRUE(
      remarks({"at t=0: u = 1", "on x=0: u = 1/t - 1/t + 1", "on x=1: u = u_x"})
          .empty());
}

TEST(PdeProblem, ValuesMayJumpAlongAnEdge) {
  const auto problem = Problem::parse(
      {.domain = {"x in [0, 1]", "y in [0, 2]", "t in [0, 1]"},
       .fields = {"u"},
       .equations = {"u_t = u_xx + u_yy"},
       .conditions = {"at t=0: u = y", "on x=0: u = y", "on x=1: u = y^2",
                      "on y=0: u = 0", "on y=2: u_y = 1"}});
  ASSERT_EQ(problem.remarks.size(), 1u);
  EXPECT_TRUE(problem.remarks[0].starts_with(
      "at t=0: u = y and on x=1: u = y^2 meet at x=1, y=0.763932, t=0 with u "
      "= 0.763932 and 0.583592"))
      << problem.remarks[0];
}

TEST(PdeProblem, NamesTheFieldWhoseSecondDerivativesAreASum) {
  const auto text =
      Problem::parse({.domain = {"x in [0, 1]", "y in [0, 1]"},
                      .fields = {"p, u"},
                      .equations = {"u_xx + u_yy = p", "p_x = 1"},
                      .conditions = {"on boundary: u = 0", "on x=0: p = 0"}})
          .describe();
  EXPECT_NE(text.find("the sum of u_yy and u_xx"), std::string::npos) << text;
  EXPECT_EQ(text.find("p_xx"), std::string::npos) << text;
}

TEST(PdeProblem, ReadsAWave) {
  const auto problem = Problem::parse(wave());
  EXPECT_EQ(problem.symbols.variables, (std::vector<std::string>{"x", "t"}));
  EXPECT_EQ(problem.symbols.fields, std::vector<std::string>{"u"});
  EXPECT_EQ(problem.time(), 1);
  EXPECT_EQ(problem.domain[1].high, 2 * pi);
  ASSERT_EQ(problem.parameters.size(), 2u);
  EXPECT_EQ(problem.parameters[1].first, "k");
  EXPECT_EQ(problem.parameters[1].second, 2 * pi);
  ASSERT_EQ(problem.equations.size(), 1u);
  EXPECT_EQ(problem.equations[0].text(), "u_tt - 4*u_xx");
  ASSERT_EQ(problem.conditions.size(), 4u);
  EXPECT_EQ(problem.conditions[0].variable, 1);
  EXPECT_EQ(problem.conditions[0].at, 0);
  EXPECT_EQ(problem.conditions[1].residual.text(), "u_t");
  for (size_t face = 0; face < 2; ++face) {
    const auto& condition = problem.conditions[2 + face];
    EXPECT_EQ(condition.kind, Condition::Kind::kEquation);
    EXPECT_EQ(condition.variable, 0);
    EXPECT_EQ(condition.at, static_cast<double>(face));
    EXPECT_EQ(condition.residual.text(), "u");
    EXPECT_EQ(condition.text, "on boundary: u = 0");
  }
  EXPECT_TRUE(problem.remarks.empty());
}

TEST(PdeProblem, ExactSolutionSolvesTheEquation) {
  const auto problem = Problem::parse(wave());
  const auto plan = problem.plan();
  const auto points = testing::random({9, 2}, "problem/points");
  const auto u = problem.exact_fields(
      Jet::moving(points, plan.directions(points.options()), plan.layout()));
  EXPECT_TRUE(
      near(problem.equations[0].evaluate(plan.environment(points, u)).value(),
           torch::zeros({9}, torch::kFloat64), {0, 1e-12}));
  EXPECT_TRUE(near(u.value().squeeze(-1),
                   torch::sin(pi * points.select(1, 0)) *
                       torch::cos(2 * pi * points.select(1, 1)),
                   testing::kFloat64));
}

TEST(PdeProblem, PeriodicMatchesWhatTheEquationsNeed) {
  const auto problem = Problem::parse(burgers());
  const auto& condition = problem.conditions.back();
  EXPECT_EQ(condition.kind, Condition::Kind::kPeriodic);
  EXPECT_EQ(condition.variable, 0);
  const std::vector<Derivative> value_and_slope{{0, {0, 0}}, {0, {1, 0}}};
  EXPECT_EQ(condition.matched, value_and_slope);
  auto advection = burgers();
  advection.equations = {"u_t + u_x"};
  const std::vector<Derivative> value{{0, {0, 0}}};
  EXPECT_EQ(Problem::parse(advection).conditions.back().matched, value);
  advection.conditions.back() = "periodic x: u, u_xx";
  const std::vector<Derivative> listed{{0, {0, 0}}, {0, {2, 0}}};
  EXPECT_EQ(Problem::parse(advection).conditions.back().matched, listed);
}

TEST(PdeProblem, SystemsAndBoundariesInSpace) {
  const ProblemText text{
      .domain = {"x in [0, 1]", "y in [0, 2]"},
      .fields = {"u, v", "p"},
      .equations = {"u_x + v_y = 0", "u*u_x + v*u_y + p_x = u_xx + u_yy",
                    "u*v_x + v*v_y + p_y = v_xx + v_yy"},
      .conditions = {"on boundary: u = y", "on x=0: v = 0"}};
  const auto problem = Problem::parse(text);
  EXPECT_EQ(problem.symbols.fields, (std::vector<std::string>{"u", "v", "p"}));
  EXPECT_EQ(problem.time(), -1);
  ASSERT_EQ(problem.conditions.size(), 5u);
  EXPECT_EQ(problem.conditions[3].variable, 1);
  EXPECT_EQ(problem.conditions[3].at, 2);
  // p has none at all; v only one of two in x and none in y.
  ASSERT_EQ(problem.remarks.size(), 4u);
  EXPECT_EQ(problem.remarks[0],
            "v has derivatives by x up to order 2, but 1 condition on the "
            "faces of x");
  auto fewer = text;
  fewer.equations.pop_back();
  EXPECT_EQ(Problem::parse(fewer).remarks[0], "2 equations for 3 fields");
}

TEST(PdeProblem, PlacesMayBeFormulas) {
  auto text = wave();
  text.parameters.push_back("L = 0.3");
  text.domain[0] = "x in [-L, L]";
  text.conditions.back() = "on x=-L: u_x + 2*u = 0";
  text.conditions.push_back("on x = 0.1 + 0.2: u = 0");
  const auto problem = Problem::parse(text);
  EXPECT_EQ(problem.conditions[2].at, -0.3);
  EXPECT_EQ(problem.conditions[3].at, 0.3);  // not 0.30000000000000004
}

TEST(PdeProblem, DescribesWhatItUnderstood) {
  auto text = wave();
  text.equations = {"u_tt = c^2*u_xx + u_xt"};
  text.conditions.back() = "periodic x";
  EXPECT_EQ(Problem::parse(text).describe(),
            "domain\n"
            "  x in [0, 1]\n"
            "  t in [0, 6.283185307179586] (time)\n"
            "fields\n"
            "  u\n"
            "parameters\n"
            "  c = 2\n"
            "  k = 6.283185307179586\n"
            "equations\n"
            "  u_tt - (4*u_xx + u_xt) = 0\n"
            "derivatives (cn(d): Taylor coefficient n along d)\n"
            "  u_tt = 2 c2(t)\n"
            "  u_xt = -c2(t) - c2(x) + c2(x+t)\n"
            "  u_xx = 2 c2(x)\n"
            "conditions\n"
            "  at t=0: u - sin(3.141592653589793*x) = 0\n"
            "  at t=0: u_t = 0\n"
            "  periodic x: u, u_x\n"
            "exact\n"
            "  u = sin(3.141592653589793*x)*cos(6.283185307179586*t)\n");
}

TEST(PdeProblem, FindsTheSumOfItsSecondDerivatives) {
  using Sum = SecondOrderSum;
  const auto sum_of = [](std::vector<std::string> equations,
                         const std::string& condition = "on x=0: u = 0") {
    return Problem::parse({.domain = {"x in [0, 1]", "y in [0, 1]"},
                           .fields = {"u", "v"},
                           .equations = std::move(equations),
                           .conditions = {condition, "on x=0: v = 0"}})
        .second_order_sum();
  };
  const Sum wanted{{{0, 2}, 1}, {{2, 0}, -4}};
  EXPECT_EQ(sum_of({"u_yy = 4*u_xx", "v = u"}), wanted);
  EXPECT_EQ(sum_of({"u_yy + u_y^2 = 4*u_xx + u*v_x", "12*v_xx - 3*v_yy = u"}),
            wanted);
  // Not the same sum; not by a constant; not alone; one of them; mixed; higher;
  // wanted by a condition.
  EXPECT_EQ(sum_of({"u_yy = 4*u_xx", "v_yy = v_xx"}), Sum());
  EXPECT_EQ(sum_of({"u_yy = x*u_xx", "v = u"}), Sum());
  EXPECT_EQ(sum_of({"u_yy = u_xx + u_xx^2", "v = u"}), Sum());
  EXPECT_EQ(sum_of({"u_y = u_xx", "v = u"}), Sum());
  EXPECT_EQ(sum_of({"u_yy = u_xx + u_xy", "v = u"}), Sum());
  EXPECT_EQ(sum_of({"u_yy = u_xx + u_xxxx", "v = u"}), Sum());
  EXPECT_EQ(sum_of({"u_yy = 4*u_xx", "v = u"}, "on x=0: u_xx = 0"), Sum());
}

}  // namespace
}  // namespace propagator::pde
