#include "propagator/pde/text/known_functions.h"
#include "propagator/pde/text/sought_range.h"
#include "testing.h"

namespace propagator::pde {
namespace {

ProblemText rod_of_unknown_material() {
  return {.domain = {"x in [0, 1]", "t in [0, 1]"},
          .fields = {"u"},
          .parameters = {"a = 0.5"},
          .equations = {"u_t = d(k*u_x, x)"},
          .exact = {"k = 1 + a*x^2"},
          .unknown = {"k(x) in [0.1, 10]"}};
}

Problem parsed_sought(const ProblemText& text) {
  return Problem::parse(text, Posed::kByReadings);
}

std::string complaint_about(const ProblemText& text) {
  try {
    parsed_sought(text);
  } catch (const ProblemError& error) {
    return fmt::format("{} | {}", error.what(), error.hint());
  }
  return "none";
}

TEST(PdeSought, BoundsAreMetSmoothlyFromTheMiddle) {
  const SoughtRange far({0.001, 1}), near({-2, 4});
  EXPECT_NEAR(far.middle(), std::sqrt(0.001), 1e-12);
  EXPECT_NEAR(near.middle(), 1, 1e-12);
  for (const auto& [range, low, high] :
       {std::tuple{far, 0.001, 1.0}, {near, -2.0, 4.0}}) {
    EXPECT_NEAR(range.at(-50), low, 1e-9);
    EXPECT_NEAR(range.at(50), high, 1e-9);
    const double h = 1e-5;
    for (const double z : {-3.0, 0.4, 2.0}) {
      const auto jet = range(Jet::moving(torch::tensor({z}, torch::kFloat64),
                                         torch::ones({1, 1}, torch::kFloat64),
                                         autodiff::JetLayout({1})));
      EXPECT_NEAR(jet.value().item<double>(), range.at(z), 1e-12);
      EXPECT_NEAR(jet.rows()[1].item<double>(),
                  (range.at(z + h) - range.at(z - h)) / (2 * h), 1e-8);
    }
  }
}

TEST(PdeSought, AParameterMayHaveBounds) {
  auto text = rod_of_unknown_material();
  text.equations = {"u_t = a*u_xx"};
  text.exact = {};
  text.unknown = {"a in [0.001, 10*0.1]"};
  const auto problem = parsed_sought(text);
  ASSERT_EQ(problem.unknowns.size(), 1u);
  EXPECT_NEAR(problem.unknowns[0].start, std::sqrt(0.001), 1e-12);
  EXPECT_EQ(problem.unknowns[0].bounds->high, 1);
  EXPECT_EQ(problem.unknowns[0].truth, 0.5);
}

TEST(PdeSought, AFunctionIsAFieldBehindThoseSolvedFor) {
  const auto problem = parsed_sought(rod_of_unknown_material());
  EXPECT_EQ(problem.symbols.fields, (std::vector<std::string>{"u", "k"}));
  EXPECT_EQ(problem.solved(), 1);
  ASSERT_EQ(problem.functions.size(), 1u);
  EXPECT_EQ(problem.functions[0].variables, std::vector<int64_t>{0});
  EXPECT_EQ(problem.functions[0].bounds->low, 0.1);
  EXPECT_EQ(problem.functions[0].truth->text(), "1 + 0.5*x^2");
  EXPECT_TRUE(problem.exact.empty());  // of u nothing is given
  EXPECT_EQ(problem.remarks, std::vector<std::string>{});
  EXPECT_NE(problem.describe().find("k(x) in [0.1, 10], in truth"),
            std::string::npos);
}

TEST(PdeSought, AFunctionHasNoDerivativeByOtherVariables) {
  auto text = rod_of_unknown_material();
  text.equations = {"d(k*u, t) = d(k*u_x, x)"};
  const auto named = parsed_sought(text).derivatives();
  EXPECT_TRUE(named.contains(Derivative{1, {1, 0}}));
  EXPECT_FALSE(named.contains(Derivative{1, {0, 1}}));
}

TEST(PdeSought, TheTruthOfAFunctionGoesIntoTheEquations) {
  auto text = rod_of_unknown_material();
  text.conditions = {"on x=0: k = 1", "on x=0: k*u_x = 2"};
  const auto problem = parsed_sought(text);
  EXPECT_TRUE(is_known(problem));
  const auto known = with_known_functions(problem);
  EXPECT_EQ(known.symbols.fields, std::vector<std::string>{"u"});
  const auto straight =
      parsed_sought({.domain = text.domain,
                     .fields = {"u"},
                     .equations = {"u_t = d((1 + 0.5*x^2)*u_x, x)"}});
  const auto residual = [](const Expression& equation) {
    return equation
        .evaluate({{Jet::constant(torch::tensor(0.3, torch::kFloat64)),
                    Jet::constant(torch::tensor(0.7, torch::kFloat64))},
                   [](const Derivative& one) {
                     return Jet::constant(torch::tensor(
                         1.0 + 2.0 * static_cast<double>(one.orders[0]),
                         torch::kFloat64));
                   }})
        .value()
        .item<double>();
  };
  EXPECT_NEAR(residual(known.equations[0]), residual(straight.equations[0]),
              1e-12);
  ASSERT_EQ(known.conditions.size(), 1u);  // k = 1 is none of u
}

TEST(PdeSought, BadOnesAreNamed) {
  const auto with = [](std::vector<std::string> unknown) {
    auto text = rod_of_unknown_material();
    text.exact = {};
    text.unknown = std::move(unknown);
    return complaint_about(text);
  };
  const auto contains = [](const std::string& text, const char* part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  contains(with({"k(y)"}), "expected a variable, got 'y'");
  contains(with({"k(x, x)"}), "x stands there twice");
  contains(with({"k(x) in [1, 1]"}), "expected low < high, got [1, 1]");
  contains(with({"k(x) in [2, 1]"}), "expected low < high, got [2, 1]");
  contains(with({"k(x"}), "expected ','");
  contains(with({"k(x)", "q(x)"}), "q(x) appears in no equation");
  contains(with({"u(x)"}), "the name u is used twice");
  contains(with({"k(x)", "a in [3, 1]"}), "expected low < high");
  contains(with({"k(x)", "a in [1, 3]"}), "outside of its bounds");

  auto text = rod_of_unknown_material();
  text.exact = {"k = 1 + t"};
  contains(complaint_about(text), "k(x) does not depend on t");
  text = rod_of_unknown_material();
  text.conditions = {"at t=0: k = 1"};
  contains(complaint_about(text), "says what it is everywhere");
  text.conditions = {"on x=0: k = 1 + t"};
  contains(complaint_about(text), "k(x) does not depend on t");
  text = rod_of_unknown_material();
  text.exact = {"u = x"};
  contains(complaint_about(text), "no exact solution of the field k");
}

TEST(PdeSought, AFunctionOfEverythingIsRemarkedOn) {
  auto text = rod_of_unknown_material();
  text.unknown = {"k(x, t)"};
  const auto remarks = parsed_sought(text).remarks;
  ASSERT_EQ(remarks.size(), 1u);
  EXPECT_NE(remarks[0].find("k(x, t) depends on all variables"),
            std::string::npos);
}

TEST(PdeSought, AParameterAsAVariableHasNoBoundary) {
  const auto problem = Problem::parse(
      {.domain = {"x in [0, 1]", "t in [0, 1]", "nu in [0.01, 0.1]"},
       .fields = {"u"},
       .equations = {"u_t = nu*u_xx"},
       .conditions = {"at t=0: u = sin(pi*x)", "on boundary: u = 0"}});
  EXPECT_EQ(problem.parameter(), 2);
  EXPECT_EQ(problem.remarks, std::vector<std::string>{});
  ASSERT_EQ(problem.conditions.size(), 3u);
  for (const auto& condition : problem.conditions) {
    EXPECT_NE(condition.variable, 2);
  }
}

}  // namespace
}  // namespace propagator::pde
