#include "pde/text/small_problems.h"
#include "propagator/pde/text/problem.h"
#include "testing.h"

namespace propagator::pde {
namespace {

using testing::burgers;
using testing::wave;

struct Complaint {
  std::string list;
  int64_t item;
  std::string what, hint;
};

Complaint complaint(const ProblemText& text) {
  try {
    Problem::parse(text);
  } catch (const ProblemError& error) {
    return {error.list(), error.item(), error.what(), error.hint()};
  }
  ADD_FAILURE() << "expected a ProblemError";
  return {};
}

// One condition in place of the last one.
Complaint bad_condition(const std::string& condition) {
  auto text = wave();
  text.conditions.back() = condition;
  return complaint(text);
}

TEST(PdeProblemError, ErrorsNameListItemAndPlace) {
  auto text = wave();
  text.conditions[1] = "at t=0: u_t = w*x";
  const auto found = complaint(text);
  EXPECT_EQ(found.list, "conditions");
  EXPECT_EQ(found.item, 1);
  EXPECT_EQ(found.what,
            "conditions[1]: unknown name 'w': no variable, field or "
            "parameter\n"
            "  at t=0: u_t = w*x\n"
            "                ^");
  EXPECT_NE(found.hint.find("parameter w = 1"), std::string::npos);
}

TEST(PdeProblemError, OrdersBeyondTheHighest) {
  auto text = wave();
  text.equations = {"u_tt = u_" + std::string(9, 'x')};
  EXPECT_NE(complaint(text).what.find("of order 9, and 8 is the most"),
            std::string::npos);
}

TEST(PdeProblemError, SidesWithoutADifference) {
  auto text = wave();
  text.equations = {"u_tt - u_xx + 1e308 = -1e308"};
  const auto found = complaint(text);
  EXPECT_EQ(found.list, "equations");
  EXPECT_NE(found.what.find("has no finite value"), std::string::npos);
}

TEST(PdeProblemError, BadDomains) {
  const auto bad = [](const std::string& item) {
    auto text = wave();
    text.domain[0] = item;
    const auto found = complaint(text);
    EXPECT_EQ(found.list, "domain") << item;
    EXPECT_EQ(found.item, 0) << item;
    return found.what;
  };
  EXPECT_EQ(bad("x in [1, 0]"),
            "domain[0]: expected low < high, got [1, 0]\n"
            "  x in [1, 0]\n"
            "       ^~~~~~");
  EXPECT_EQ(bad("x [0, 1]"),
            "domain[0]: expected 'in', got '['\n"
            "  x [0, 1]\n"
            "    ^");
  EXPECT_EQ(bad("x in [0, y]"),
            "domain[0]: unknown name 'y': no variable, field or parameter\n"
            "  x in [0, y]\n"
            "           ^");
  for (const std::string item :
       {"", "x", "x in", "x in [", "x in []", "x in [0 1]", "x in [0, 1",
        "x in 0, 1", "x in [0, 1, 2]", "x in [, 1]", "x in [0, ]",
        "x in [0, 1] and more", "2 in [0, 1]", "x in [0, 0]", "x = 1"}) {
    EXPECT_NE(bad(item).find('^'), std::string::npos) << item;
  }
}

TEST(PdeProblemError, BadNames) {
  const auto bad_field = [](const std::string& item) {
    auto text = wave();
    text.fields = {item};
    return complaint(text).what;
  };
  EXPECT_EQ(bad_field("x"), "fields[0]: the name x is used twice\n  x\n  ^");
  EXPECT_EQ(bad_field("u, c"),
            "fields[0]: the name c is used twice\n  u, c\n     ^");
  for (const std::string name : {"pi", "e", "d", "sin", "sign", "in", "on",
                                 "at", "periodic", "boundary", "π"}) {
    EXPECT_NE(bad_field(name).find("is reserved"), std::string::npos) << name;
  }
  for (const std::string item : {"", "u,", "u v", "2u", "u = 1", ",u"}) {
    EXPECT_NE(bad_field(item).find("fields[0]"), std::string::npos) << item;
  }
  auto text = wave();
  text.parameters.push_back("c = 3");
  EXPECT_EQ(complaint(text).item, 2);
  text = wave();
  text.parameters.push_back("u_x = 3");
  EXPECT_EQ(complaint(text).what, "fields: the name u_x is also a derivative");
}

TEST(PdeProblemError, BadParameters) {
  const auto bad = [](const std::string& item) {
    auto text = wave();
    text.parameters[1] = item;
    const auto found = complaint(text);
    EXPECT_EQ(found.list, "parameters") << item;
    EXPECT_EQ(found.item, 1) << item;
    return found.what;
  };
  EXPECT_EQ(bad("k = 1 + x"),
            "parameters[1]: a parameter is a number, and x is a variable\n"
            "  k = 1 + x\n          ^");
  EXPECT_EQ(bad("k = u^2"),
            "parameters[1]: a parameter is a number, and u is a field\n"
            "  k = u^2\n      ^");
  EXPECT_EQ(bad("k 2"), "parameters[1]: expected '=', got '2'\n  k 2\n    ^");
  for (const std::string item :
       {"", "k", "k =", "k = m", "= 2", "k = 1 = 2", "k = 1/0", "pi = 3"}) {
    EXPECT_NE(bad(item).find('^'), std::string::npos) << item;
  }
}

TEST(PdeProblemError, AParameterThatIsAFormulaIsACoefficient) {
  auto text = wave();
  text.parameters.push_back("m = 1 + x ");
  EXPECT_EQ(complaint(text).hint, "write m = 1 + x among the coefficients");
}

TEST(PdeProblemError, TheImaginaryUnit) {
  auto text = wave();
  text.equations = {"i*u_t = u_xx"};
  const auto found = complaint(text);
  EXPECT_NE(found.what.find("unknown name 'i'"), std::string::npos);
  EXPECT_NE(found.hint.find("as fields: complex psi"), std::string::npos)
      << found.hint;
}

TEST(PdeProblemError, AVariableCalledTimeIsTime) {
  ProblemText text{.domain = {"time in [0, 1]"},
                   .fields = {"u"},
                   .equations = {"u_time = -u"}};
  text.conditions = {"on time=1: u = 1"};
  EXPECT_EQ(complaint(text).hint, "add at time=0: u = …");
  text.conditions = {"at time=0: u = 1"};
  EXPECT_EQ(Problem::parse(text).time(), 0);
  // t is, where there are both.
  text.domain.push_back("t in [0, 1]");
  text.conditions.push_back("at t=0: u = 1");
  EXPECT_EQ(Problem::parse(text).time(), 1);
}

TEST(PdeProblemError, BadConditions) {
  EXPECT_EQ(bad_condition("on x=2: u = 0").what,
            "conditions[2]: condition outside the domain: x=2 with x in [0, "
            "1]\n  on x=2: u = 0\n     ^~~");
  EXPECT_EQ(bad_condition("on x=0.5: u = 0").what,
            "conditions[2]: condition inside the domain: x=0.5 with x in [0, "
            "1]\n  on x=0.5: u = 0\n     ^~~~~");
  EXPECT_EQ(bad_condition("on x=0.5: u = 0").hint,
            "conditions stand at an end: x=0 or x=1");
  EXPECT_EQ(bad_condition("on y=0: u = 0").what,
            "conditions[2]: expected a variable, got 'y'\n"
            "  on y=0: u = 0\n     ^");
  EXPECT_EQ(bad_condition("on x=t: u = 0").what,
            "conditions[2]: expected a number, got a formula of variables\n"
            "  on x=t: u = 0\n       ^");
  EXPECT_EQ(bad_condition("on x=0: x = 0").what,
            "conditions[2]: no field is left in this equation\n"
            "  on x=0: x = 0\n          ^~~~~");
  EXPECT_EQ(bad_condition("on x=0 u = 0").what,
            "conditions[2]: expected ':' between the place and the equation\n"
            "  on x=0 u = 0\n              ^");
  EXPECT_EQ(bad_condition("periodic x: u, w").what,
            "conditions[2]: expected a field or a derivative of one, got 'w'\n"
            "  periodic x: u, w\n                 ^");
  for (const std::string item : {"",
                                 "u = 0",
                                 "on",
                                 "on :",
                                 "on x",
                                 "on x:",
                                 "on x=",
                                 "on x=:",
                                 "at",
                                 "on x=0:",
                                 "on boundary",
                                 "on boundary x: u = 0",
                                 "on boundary:",
                                 "periodic",
                                 "periodic y",
                                 "periodic x:",
                                 "periodic x: u,",
                                 "periodic x u",
                                 "periodic x: u u_x",
                                 "periodic x, t",
                                 "on 2=x: u = 0",
                                 "on x=0: u = 0: 1",
                                 "on x=0: v = 0",
                                 "on x=0: u = 0 = 0"}) {
    const auto found = bad_condition(item);
    EXPECT_EQ(found.list, "conditions") << item;
    EXPECT_EQ(found.item, 2) << item;
    EXPECT_NE(found.what.find('^'), std::string::npos) << item;
  }
  const ProblemText oscillator{.domain = {"t in [0, 1]"},
                               .fields = {"u"},
                               .equations = {"u_t = -u"},
                               .conditions = {"on boundary: u = 1"}};
  EXPECT_NE(complaint(oscillator).what.find("there is no boundary"),
            std::string::npos);
}

TEST(PdeProblemError, ConditionsAsInBooks) {
  for (const auto& [item, meant] :
       {std::pair{"u(0, t) = 1", "write on x=0: u = 1"},
        {"u_t(x,0) = sin(pi*x)", "write at t=0: u_t = sin(pi*x)"},
        {"u(x, t=0) = 0", "write at t=0: u = 0"},
        {"u_x(1,t)", "write on x=1: u_x"}}) {
    const auto found = bad_condition(item);
    EXPECT_EQ(found.hint, meant);
    EXPECT_NE(found.what.find("expected 'at', 'on' or 'periodic'"),
              std::string::npos);
  }
  // No face, two of them, or a ring.
  for (const char* item : {"u(x, t) = 0", "u(0, 0) = 1", "u(0,t) = u(1,t)",
                           "u(0) = 1", "u(0", "u(0, t, 1) = 0", "sin(x) = 0"}) {
    EXPECT_NE(bad_condition(item).hint.find("or periodic x"), std::string::npos)
        << item;
  }
}

TEST(PdeProblemError, AConditionHasOneFace) {
  EXPECT_EQ(bad_condition("at t=0, x=0: u = 0").what,
            "conditions[2]: a condition holds on one face\n"
            "  at t=0, x=0: u = 0\n          ^");
  EXPECT_EQ(bad_condition("on x=0 and x=1: u = 0").hint,
            "write one for each, such as on x=…: u = …");
}

TEST(PdeProblemError, EquationsThatSayNothing) {
  for (const char* equation :
       {"u_tt = u_tt", "u*(u_xx - u_xx) = 0", "(x + 0.1)*u_t = x*u_t + u_t/10",
        "u_x = u_x + 1e20"}) {
    auto text = wave();
    text.equations.push_back(equation);
    const auto found = complaint(text);
    EXPECT_EQ(found.list, "equations");
    EXPECT_EQ(found.item, 1);
    EXPECT_NE(found.what.find("says nothing of the fields"), std::string::npos)
        << found.what;
  }
  // Whatever its unit, or only somewhere.
  for (const char* equation :
       {"1e-30*u_tt = 4e-30*u_xx", "u_tt = 1e20", "1e-9*u_t + 1e20 = 0",
        "(abs(x - 0.2) + 0.2 - x)*u = 0", "u^3 = u", "1/u = u_x"}) {
    auto text = wave();
    text.equations.push_back(equation);
    EXPECT_NO_THROW(Problem::parse(text)) << equation;
  }
}

TEST(PdeProblemError, ConditionsThatSayNothingOrTheSame) {
  for (const char* item : {"on x=0: u = u", "on x=0: u_x = x + u_x"}) {
    const auto found = bad_condition(item);
    EXPECT_EQ(found.what,
              fmt::format("conditions: {} says nothing of the fields", item));
  }
  for (const char* item : {"on x=1: (x - 0.5)*u = 0", "on x=0: u^2 = u"}) {
    auto text = wave();
    text.conditions.back() = item;  // where it is asked, it says something
    EXPECT_NO_THROW(Problem::parse(text)) << item;
  }
  auto text = wave();
  text.conditions.push_back("on x=1: 2*u = u");  // u: as on the boundary
  EXPECT_NO_THROW(Problem::parse(text));
  text.conditions.push_back("on x=1: u = 0");
  EXPECT_EQ(complaint(text).what,
            "conditions: on x=1: u = 0 says the same as on boundary: u = 0");
}

TEST(PdeProblemError, ConditionsThatContradictEachOther) {
  for (const std::string item :
       {"on x=1: u = 1", "on x=1: u = t", "on x=1: 1e6*u - 2 = sin(t)",
        "on x=1: t*u = -3"}) {
    auto text = wave();
    text.conditions.push_back(item);
    EXPECT_EQ(
        complaint(text).what,
        fmt::format("conditions: {} contradicts on boundary: u = 0", item));
  }
  // Both can hold.
  for (const char* item :
       {"on x=1: u_x = 1", "on x=1: u + u_x = 1", "on x=1: u = t*u",
        "on x=1: u^3 = u", "on x=1: 3e7*u = 0"}) {
    auto text = wave();
    text.conditions.push_back(item);
    EXPECT_NO_THROW(Problem::parse(text)) << item;
  }
}

TEST(PdeProblemError, PairsThatNameTheSameDerivatives) {
  ProblemText text{.domain = {"x in [0, 1]"},
                   .fields = {"u, v"},
                   .equations = {"u_xx = v", "v_xx = u"},
                   .conditions = {"on x=0: u + v = 1", "on x=0: u - v = 2",
                                  "on x=1: u = 0", "on x=1: v = 0"}};
  EXPECT_NO_THROW(Problem::parse(text));
  text.conditions[1] = "on x=0: u*v = 2";
  EXPECT_NO_THROW(Problem::parse(text));
  text.conditions[1] = "on x=0: 2*u = 3 - 2*v";
  EXPECT_EQ(complaint(text).what,
            "conditions: on x=0: 2*u = 3 - 2*v contradicts on x=0: u + v = 1");
}

TEST(PdeProblemError, PeriodicTwice) {
  auto text = burgers();
  text.conditions.push_back("periodic x: u_x");
  EXPECT_EQ(complaint(text).what,
            "conditions: periodic x: u_x says the same as periodic x");
  text.conditions[1] = "periodic x: u";
  EXPECT_NO_THROW(Problem::parse(text));
}

TEST(PdeProblemError, MissingConditionsInTime) {
  auto text = wave();
  text.conditions.erase(text.conditions.begin() + 1);
  auto found = complaint(text);
  EXPECT_EQ(found.list, "conditions");
  EXPECT_EQ(found.item, -1);
  EXPECT_EQ(found.what,
            "conditions: missing condition on u_t at t=0: the equations have "
            "a time derivative of u of order 2");
  EXPECT_EQ(found.hint, "add at t=0: u_t = …");
  text.conditions.erase(text.conditions.begin());
  EXPECT_EQ(complaint(text).hint, "add at t=0: u = …");
  // The end of the interval is not the start.
  text = burgers();
  text.conditions[0] = "at t=1: u = x";
  EXPECT_EQ(complaint(text).hint, "add at t=0: u = …");
  text.conditions[0] = "periodic t: u";
  EXPECT_NO_THROW(Problem::parse(text));
  // Of two fields the one that lacks it is named.
  text = burgers();
  text.fields = {"u", "v"};
  text.equations.push_back("v_t = u");
  EXPECT_EQ(complaint(text).hint, "add at t=0: v = …");
}

TEST(PdeProblemError, MissingParts) {
  const auto without = [](auto member) {
    auto text = wave();
    text.exact.clear();
    (text.*member).clear();
    return complaint(text);
  };
  EXPECT_EQ(without(&ProblemText::equations).what,
            "equations: there is no equation");
  EXPECT_EQ(without(&ProblemText::conditions).list, "conditions");
  ProblemText text;
  EXPECT_EQ(complaint(text).what, "domain: there is no variable");
  text.domain = {"x in [0, 1]"};
  EXPECT_EQ(complaint(text).what, "fields: there is no field");
  // What is missing is named, not what follows from it.
  EXPECT_EQ(without(&ProblemText::domain).what, "domain: there is no variable");
  EXPECT_EQ(without(&ProblemText::fields).what, "fields: there is no field");
  text = wave();
  text.fields = {"u, v"};
  text.exact.clear();
  EXPECT_EQ(complaint(text).what,
            "equations: the field v appears in no equation");
  text = wave();
  text.equations.push_back("x = t");
  EXPECT_EQ(complaint(text).what,
            "equations[1]: no field is left in this equation\n"
            "  x = t\n  ^~~~~");
}

TEST(PdeProblemError, BadExactSolutions) {
  const auto bad = [](const std::vector<std::string>& exact) {
    auto text = wave();
    text.fields = {"u, v"};
    text.equations.push_back("v = u");
    text.exact = exact;
    const auto found = complaint(text);
    EXPECT_EQ(found.list, "exact");
    return found.what;
  };
  EXPECT_EQ(bad({"u = x"}), "exact: no exact solution of the field v");
  EXPECT_EQ(bad({"u = x", "v = u_x"}),
            "exact[1]: an exact solution may not use the field u_x\n"
            "  v = u_x\n      ^~~");
  EXPECT_EQ(bad({"u = x", "u = t"}),
            "exact[1]: u has two exact solutions\n  u = t\n  ^");
  EXPECT_EQ(bad({"w = x"}),
            "exact[0]: expected a field (u, v) in front of '='\n"
            "  w = x\n  ^");
  for (const std::string item : {"", "u", "u =", "u x", "x = u", "u = x = t"}) {
    EXPECT_NE(bad({item}).find('^'), std::string::npos) << item;
  }
  EXPECT_THROW(Problem::parse(burgers()).exact_fields(
                   Jet::constant(torch::zeros({1, 2}))),
               std::invalid_argument);
}

}  // namespace
}  // namespace propagator::pde
