#include "propagator/pde/text/expression.h"

#include <cmath>
#include <numbers>

#include "propagator/pde/text/expression_node.h"
#include "testing.h"

namespace propagator::pde {
namespace {

using std::numbers::pi;
using testing::near;

const Symbols kSymbols{{"x", "t"}, {"u", "v"}, {{"c", 2.0}, {"nu", 0.01}}};

Expression parse(const std::string& text) {
  return Expression::parse(text, kSymbols);
}

std::string normal(const std::string& text) { return parse(text).text(); }

Jet scalar(double value) {
  return Jet::constant(torch::full({}, value, torch::kFloat64));
}

// With fields u = 3, v = 5, and 10·field + 2·(order in x) + 3·(order in t)
// for their derivatives.
double value(const Expression& expression, double x = 0, double t = 0) {
  const Environment environment{
      {scalar(x), scalar(t)}, [](const Derivative& derivative) {
        if (derivative.order() == 0) {
          return scalar(derivative.field == 0 ? 3 : 5);
        }
        return scalar(static_cast<double>(10 * derivative.field +
                                          2 * derivative.orders[0] +
                                          3 * derivative.orders[1]));
      }};
  return expression.evaluate(environment).value().item<double>();
}

double value(const std::string& text, double x = 0, double t = 0) {
  return value(parse(text), x, t);
}

TEST(PdeExpression, NumbersAndConstants) {
  EXPECT_EQ(parse("1").constant(), 1.0);
  EXPECT_EQ(parse(" .5\t").constant(), 0.5);
  EXPECT_EQ(parse("1e-3").constant(), 1e-3);
  EXPECT_EQ(parse("2.5E+2").constant(), 250.0);
  EXPECT_EQ(parse("7.").constant(), 7.0);
  EXPECT_EQ(parse("2*pi").constant(), 2 * pi);
  EXPECT_EQ(parse("π").constant(), pi);
  EXPECT_DOUBLE_EQ(*parse("log(e)").constant(), 1);
  EXPECT_DOUBLE_EQ(*parse("nu/pi*c").constant(), 0.02 / pi);
  EXPECT_EQ(parse("0*x").constant(), 0.0);
  EXPECT_EQ(parse("x").constant(), std::nullopt);
  EXPECT_EQ(Expression().constant(), 0.0);
}

TEST(PdeExpression, Precedence) {
  EXPECT_DOUBLE_EQ(value("1 + 2*3"), 7);
  EXPECT_DOUBLE_EQ(value("(1 + 2)*3"), 9);
  EXPECT_DOUBLE_EQ(value("2^3^2"), 512);
  EXPECT_DOUBLE_EQ(value("2**3**2"), 512);
  EXPECT_DOUBLE_EQ(value("-2^2"), -4);
  EXPECT_DOUBLE_EQ(value("-x^2", 3), -9);
  EXPECT_DOUBLE_EQ(value("(-x)^2", 3), 9);
  EXPECT_DOUBLE_EQ(value("-x*t", 3, 5), -15);
  EXPECT_DOUBLE_EQ(value("x^-2", 2), 0.25);
  EXPECT_DOUBLE_EQ(value("2^-x^2", 2), 1.0 / 16);
  EXPECT_DOUBLE_EQ(value("x - t - 1", 3, 5), -3);
  EXPECT_DOUBLE_EQ(value("x - (t - 1)", 3, 5), -1);
  EXPECT_DOUBLE_EQ(value("64/x/t", 4, 8), 2);
  EXPECT_DOUBLE_EQ(value("64/(x*t)", 4, 8), 2);
  EXPECT_DOUBLE_EQ(value("64/x*t", 4, 8), 128);
  EXPECT_DOUBLE_EQ(value("2*x^2", 3), 18);
  EXPECT_DOUBLE_EQ(value("+x", 3), 3);
}

TEST(PdeExpression, EveryFunctionHasItsClosedForm) {
  const double x = 0.7, t = -0.4;
  const auto close = [&](const std::string& text, double expected) {
    EXPECT_NEAR(value(text, x, t), expected, 1e-14 * (1 + std::abs(expected)))
        << text;
  };
  close("sin(x)", std::sin(x));
  close("cos(2*x + t)", std::cos(2 * x + t));
  close("tan(t)", std::tan(t));
  close("exp(-x^2)", std::exp(-x * x));
  close("log(x)", std::log(x));
  close("sqrt(x)", std::sqrt(x));
  close("tanh(x)", std::tanh(x));
  close("sinh(x)", std::sinh(x));
  close("cosh(x)", std::cosh(x));
  close("abs(t)", std::abs(t));
  close("sign(t)", -1);
  close("atan(2*x)", std::atan(2 * x));
  close("erf(x)", std::erf(x));
  close("x^2.5", std::pow(x, 2.5));
  close("x^t", std::pow(x, t));
  close("3^t", std::pow(3, t));
  close("(1 + x)^(2*t)", std::pow(1 + x, 2 * t));
  close("sin(pi*x)*cos(c*π*t)", std::sin(pi * x) * std::cos(2 * pi * t));
  for (const auto& function : functions()) {
    const double folded =
        *parse(function.name + std::string("(0.3)")).constant();
    EXPECT_NEAR(value(function.name + std::string("(x)"), 0.3), folded, 1e-15)
        << function.name;
  }
}

TEST(PdeExpression, FieldsAndTheirDerivatives) {
  EXPECT_EQ(value("u"), 3);
  EXPECT_EQ(value("v"), 5);
  EXPECT_EQ(value("u_x"), 2);
  EXPECT_EQ(value("u_xxt"), 7);
  EXPECT_EQ(value("u_txx"), 7);
  EXPECT_EQ(value("v_tt"), 16);
  EXPECT_EQ(value("u_t + u*u_x - c*v_xx"), 3 + 3 * 2 - 2 * 14);
  const std::set<Derivative> expected{{0, {0, 0}}, {0, {1, 1}}, {1, {2, 0}}};
  EXPECT_EQ(parse("u*u_xt + v_xx*u_tx + x*v_xx").derivatives(), expected);
  EXPECT_EQ(parse("u_t + x^2").variables(), std::set<int64_t>{0});
  EXPECT_TRUE(parse("u_t").variables().empty());
  EXPECT_EQ((Derivative{0, {1, 2}}.text(kSymbols)), "u_xtt");
  EXPECT_EQ((Derivative{1, {0, 0}}.text(kSymbols)), "v");
  EXPECT_EQ((Derivative{1, {1, 2}}.order()), 3);
}

TEST(PdeExpression, LongNamesOfVariablesAndFields) {
  const Symbols symbols{{"x", "xy", "y", "theta"}, {"u", "u_in"}, {}};
  const auto of = [&](const std::string& text) {
    return *Expression::parse(text, symbols).derivatives().begin();
  };
  EXPECT_EQ(of("u_theta"), (Derivative{0, {0, 0, 0, 1}}));
  EXPECT_EQ(of("u_xtheta"), (Derivative{0, {1, 0, 0, 1}}));
  // The longest variable first: xy is itself, xyy ends with y.
  EXPECT_EQ(of("u_xy"), (Derivative{0, {0, 1, 0, 0}}));
  EXPECT_EQ(of("u_xyy"), (Derivative{0, {0, 1, 1, 0}}));
  EXPECT_EQ(of("u_in"), (Derivative{1, {0, 0, 0, 0}}));
  EXPECT_EQ(of("u_in_xx"), (Derivative{1, {2, 0, 0, 0}}));
  // What has no short form of its own is printed as what it is.
  const auto mixed = Expression::parse("d(d(u, x), y)", symbols);
  EXPECT_EQ(mixed.text(), "d(d(u, x), y)");
  EXPECT_EQ(Expression::parse(mixed.text(), symbols), mixed);
  // Of two fields that fit, the longer one.
  const Symbols nested{{"x", "a_x"}, {"u_a", "u"}, {}};
  EXPECT_EQ(*Expression::parse("u_a_x", nested).derivatives().begin(),
            (Derivative{0, {1, 0}}));
  // Names that only fit if the longest one is given up.
  const Symbols tricky{{"a", "aa", "aab"}, {"w"}, {}};
  EXPECT_EQ(*Expression::parse("w_aaaab", tricky).derivatives().begin(),
            (Derivative{0, {0, 1, 1}}));
  EXPECT_THROW(Expression::parse("w_" + std::string(60, 'a') + "c", tricky),
               SyntaxError);
}

TEST(PdeExpression, GreekParameters) {
  const Symbols symbols{{"x"}, {"ψ"}, {{"λ", 3.0}}};
  const auto expression = Expression::parse("λ*ψ_xx", symbols);
  EXPECT_EQ(expression.text(), "3*ψ_xx");
  EXPECT_EQ(expression.derivatives(), (std::set<Derivative>{{0, {2}}}));
}

TEST(PdeExpression, PrintsWithFewBrackets) {
  EXPECT_EQ(normal("u_tt-c^2*u_xx"), "u_tt - 4*u_xx");
  EXPECT_EQ(normal("((x))"), "x");
  EXPECT_EQ(normal("x+(t+1)"), "x + t + 1");
  EXPECT_EQ(normal("x-(t-1)"), "x - (t - 1)");
  EXPECT_EQ(normal("x*(t*u)"), "x*t*u");
  EXPECT_EQ(normal("x/(t*u)"), "x/(t*u)");
  EXPECT_EQ(normal("x/t/u"), "x/t/u");
  EXPECT_EQ(normal("1/x^2"), "1/x^2");
  EXPECT_EQ(normal("x^-0.5"), "1/x^0.5");
  EXPECT_EQ(normal("-(x+t)"), "-(x + t)");
  EXPECT_EQ(normal("(-x)^2"), "(-x)^2");
  EXPECT_EQ(normal("-(x^2)"), "-x^2");
  EXPECT_EQ(normal("(x^t)^u"), "(x^t)^u");
  EXPECT_EQ(normal("x^(t^u)"), "x^t^u");
  EXPECT_EQ(normal("x*2*t*3"), "6*x*t");
  EXPECT_EQ(normal("1 + x + 2"), "3 + x");
  EXPECT_EQ(normal("1*x + 0 - 1*t"), "x - t");
  EXPECT_EQ(normal("sin( (x) )"), "sin(x)");
}

TEST(PdeExpression, ItsTextParsesToTheSameTree) {
  const auto expect_same = [](const std::string& text) {
    const auto once = parse(text);
    const auto again = parse(once.text());
    EXPECT_EQ(again, once) << text << " → " << once.text();
    EXPECT_EQ(again.text(), once.text());
  };
  for (const auto text :
       {"-1/x",        "-(1/x)",       "1/x*t",       "1/x/t",
        "2/(x + 1)^3", "(1/x^2)^0.5",  "1/(x^0.5)^2", "1/x^t",
        "-x^-t",       "x - (-1)*t",   "-3 + x",      "x - 3",
        "x^1e-5",      "2^x^t",        "(x*t)^2",     "(2*x)^-1",
        "d(x^t, t)",   "d(abs(u), x)", "d(u^3/t, x)", "x/3",
        "-x/(-t)",     "((x^2)^3)^t",  "0.1 + 0.2",   "1 - u^2",
        "c^2 + nu*x",  "x^-0.5",       "t*x^-2.5",    "0"}) {
    expect_same(text);
  }
  for (const auto text :
       {"u_t + u*u_x - (0.01/pi)*u_xx", "1e-5*x - 1e20", "-2*(x + t)*(x - t)/3",
        "exp(-x)/(1 + exp(-x))", "d(sin(u)*x, x, 2)", "d(tan(x*t)/sqrt(u), t)",
        "sign(x)*sign(t)^2"}) {
    expect_same(text);
  }
  EXPECT_FALSE(parse("x") == parse("t"));
  EXPECT_FALSE(parse("x + t") == parse("x*t"));
}

TEST(PdeExpression, EquationIsItsResidual) {
  const auto residual = [](const std::string& text) {
    return Expression::parse_equation(text, kSymbols).text();
  };
  EXPECT_EQ(residual("u_t = c*u_xx"), "u_t - 2*u_xx");
  EXPECT_EQ(residual("u = 0"), "u");
  EXPECT_EQ(residual("u_t - u_xx"), "u_t - u_xx");
  EXPECT_EQ(residual("u = sin(x) + t"), "u - (sin(x) + t)");
}

TEST(PdeExpression, ReadsAPartOfALine) {
  const std::string line = "on x=0: u_x + 2*w = 0";
  EXPECT_EQ(Expression::parse(line, kSymbols, {8, 11}).text(), "u_x");
  const auto message = testing::thrown<SyntaxError>(
      [&] { Expression::parse_equation(line, kSymbols, {7}); });
  EXPECT_EQ(message,
            "unknown name 'w': no variable, field or parameter\n"
            "  on x=0: u_x + 2*w = 0\n"
            "                  ^");
}

TEST(PdeExpression, WithoutADerivativeItIsZeroThere) {
  const auto without_u_xx = [](const std::string& text) {
    return parse(text).without({{0, {2, 0}}}).text();
  };
  EXPECT_EQ(without_u_xx("u_tt - c^2*u_xx"), normal("u_tt"));
  EXPECT_EQ(without_u_xx("u_xx*u + v_xx - sin(x + u_xx)^2"),
            normal("v_xx - sin(x)^2"));
  EXPECT_EQ(without_u_xx("2*u_xx"), "0");
  EXPECT_THROW(without_u_xx("u/u_xx"), UsageError);
}

TEST(PdeExpression, ADerivativeThatIsNotFiniteIsAUsageError) {
  EXPECT_THROW(parse("1e200*x^1e200").derivative(0), UsageError);
}

TEST(PdeExpression, SymbolicDerivativesOfFields) {
  EXPECT_EQ(normal("d(u, x)"), "u_x");
  EXPECT_EQ(normal("d(u, x, 2)"), "u_xx");
  EXPECT_EQ(normal("d(u_x, t)"), "u_xt");
  EXPECT_EQ(normal("d(u*v, x)"), "u_x*v + u*v_x");
  EXPECT_EQ(normal("d(u^2/2, x)"), "u*u_x");
  EXPECT_EQ(normal("d(nu*d(u, x), x)"), "0.01*u_xx");
  EXPECT_EQ(normal("d(sin(u), t)"), "cos(u)*u_t");
  EXPECT_EQ(normal("d(x, t)"), "0");
  EXPECT_EQ(normal("d(x*t, x)"), "t");
  EXPECT_EQ(parse("u*v").derivative(1).text(), "u_t*v + u*v_t");
}

TEST(PdeExpression, SymbolicDerivativesAgreeWithDifferences) {
  // u = sin(x + 2t), so that every derivative is known at any point.
  const auto at = [](const Expression& expression, double x, double t) {
    const Environment environment{
        {scalar(x), scalar(t)}, [x, t](const Derivative& d) {
          const auto order = static_cast<double>(d.order());
          return scalar(std::pow(2, d.orders[1]) *
                        std::sin(x + 2 * t + order * pi / 2));
        }};
    return expression.evaluate(environment).value().item<double>();
  };
  const double x = 0.63, t = 0.41, step = 1e-5;
  for (const std::string text :
       {"sin(x*t)", "cos(u)", "tan(x + t)", "exp(-x^2*t)", "log(x + t^2)",
        "sqrt(1 + u^2)", "tanh(3*u)", "sinh(x*u)", "cosh(u - t)",
        "abs(x - 2*t)", "atan(3*u)", "erf(x*u)", "x^t", "3^(x*t)",
        "(1 + u^2)^(x + t)", "x^2.5/t^3", "u*u_x + u_xt^2", "1/(1 + exp(-u/x))",
        "sign(x)*x*t"}) {
    const auto f = parse(text);
    const auto by_x = parse("d(" + text + ", x)");
    const auto by_t = parse("d(" + text + ", t)");
    const double slope_x =
        (at(f, x + step, t) - at(f, x - step, t)) / (2 * step);
    const double slope_t =
        (at(f, x, t + step) - at(f, x, t - step)) / (2 * step);
    EXPECT_NEAR(at(by_x, x, t), slope_x, 1e-8 * (1 + std::abs(slope_x)))
        << text << " → " << by_x.text();
    EXPECT_NEAR(at(by_t, x, t), slope_t, 1e-8 * (1 + std::abs(slope_t)))
        << text << " → " << by_t.text();
    const auto second = parse("d(" + text + ", x, 2)");
    const double curvature =
        (at(by_x, x + step, t) - at(by_x, x - step, t)) / (2 * step);
    EXPECT_NEAR(at(second, x, t), curvature, 1e-7 * (1 + std::abs(curvature)))
        << text;
  }
}

TEST(PdeExpression, MovingPointsGiveTheDerivativesOfAFormula) {
  const autodiff::JetLayout layout({3, 2});
  const auto points = testing::random({5, 2}, "expression/points");
  const auto directions = torch::eye(2, torch::kFloat64);
  const auto variables =
      autodiff::coordinates(Jet::moving(points, directions, layout));
  const auto wave =
      parse("sin(pi*x)*cos(2*pi*t) + x^3").evaluate({variables, {}});
  const auto x = points.select(1, 0), t = points.select(1, 1);
  const auto s = torch::sin(pi * x), c = torch::cos(2 * pi * t);
  const auto row = [&](int64_t direction, int64_t k) {
    return wave.rows()[layout.row(direction, k)];
  };
  const testing::Tolerance close{1e-12, 1e-12};
  EXPECT_TRUE(near(wave.value(), s * c + x.pow(3), close));
  EXPECT_TRUE(near(row(0, 2) * 2, -pi * pi * s * c + 6 * x, close));
  EXPECT_TRUE(
      near(row(0, 3) * 6, -pi * pi * pi * torch::cos(pi * x) * c + 6, close));
  EXPECT_TRUE(near(row(1, 2) * 2, -4 * pi * pi * s * c, close));
}

TEST(PdeExpression, JetsOfEveryFunctionHaveItsSymbolicDerivatives) {
  const autodiff::JetLayout layout({4});
  const auto points = testing::random({6, 2}, "expression/jets").abs();
  const auto along_x = torch::tensor({{1.0, 0.0}}, torch::kFloat64);
  const auto moving =
      autodiff::coordinates(Jet::moving(points, along_x, layout));
  const auto still = autodiff::coordinates(Jet::constant(points));
  for (const auto& function : functions()) {
    auto formula = parse(std::string(function.name) + "(0.1 + x*t)");
    const auto jet = formula.evaluate({moving, {}});
    double factorial = 1;
    for (int64_t k = 0; k <= 4; ++k) {
      EXPECT_TRUE(near(jet.rows()[k] * factorial,
                       formula.evaluate({still, {}}).value().expand({6}),
                       {1e-11, 1e-11}))
          << function.name << ", order " << k;
      formula = formula.derivative(0);
      factorial *= static_cast<double>(k + 1);
    }
  }
}

TEST(PdeExpression, WholePowersAreSafeAtZero) {
  const autodiff::JetLayout layout({2});
  const auto points = torch::zeros({1, 2}, torch::kFloat64);
  const auto along_x = torch::tensor({{1.0, 0.0}}, torch::kFloat64);
  const auto variables =
      autodiff::coordinates(Jet::moving(points, along_x, layout));
  for (const auto& [text, coefficient] :
       {std::pair<std::string, double>{"x^2", 1},
        {"x^3", 0},
        {"(x + t)^2", 1}}) {
    const auto jet = parse(text).evaluate({variables, {}});
    EXPECT_EQ(jet.rows()[2][0].item<double>(), coefficient) << text;
  }
}

TEST(PdeExpression, KeepsTypeAndShape) {
  const auto x = torch::linspace(0, 1, 6, torch::kFloat32).view({3, 2});
  const Environment environment{{Jet::constant(x), Jet::constant(x)}, {}};
  for (const std::string text : {"2*x + 1", "3", "2^x", "1/x", "sin(pi*x)"}) {
    const auto found = parse(text).evaluate(environment).value();
    EXPECT_EQ(found.dtype(), torch::kFloat32) << text;
    EXPECT_EQ(found.sizes(), x.sizes()) << text;
  }
  EXPECT_THROW(parse("u").evaluate(environment), std::invalid_argument);
  // A number on moving points does not move.
  const autodiff::JetLayout layout({2});
  const auto moving = autodiff::coordinates(
      Jet::moving(torch::ones({4, 2}), torch::ones({1, 2}), layout));
  const auto three = parse("3").evaluate({moving, {}});
  EXPECT_EQ(three.layout(), layout);
  EXPECT_EQ(three.rows().sum().item<double>(), 12);
}

TEST(PdeExpression, ASumTakesThePlaceOfSecondDerivatives) {
  const SecondOrderSum sum{{{0, 2}, 1.0}, {{2, 0}, -4.0}};
  const auto wave = parse("2*u_tt + u*u_x - 8*u_xx + x").with_sum(sum);
  EXPECT_EQ(wave.text(), "2*second_order_sum(u) + u*u_x + x");
  EXPECT_EQ(wave.derivatives(), parse("u*u_x").derivatives());
  const Environment environment{
      {scalar(0.5), scalar(0)},
      [](const Derivative& d) { return scalar(d.order() == 0 ? 3 : 7); },
      [](int64_t field) { return scalar(field == 0 ? 10 : 100); }};
  EXPECT_EQ(wave.evaluate(environment).value().item<double>(), 41.5);
  // Without sums in the environment it has no value, and never a derivative.
  EXPECT_THROW(value(wave), std::invalid_argument);
  EXPECT_THROW(wave.derivative(0), std::invalid_argument);
  for (const char* other :
       {"u_tt - u_xx", "u_tt", "u_tt - 4*u_xx + u_xx^2", "x*u_tt - 4*x*u_xx"}) {
    EXPECT_THROW(parse(other).with_sum(sum), std::invalid_argument) << other;
  }
}

TEST(PdeExpression, GradientGoesThrough) {
  EXPECT_TRUE(testing::gradient_is_right(
      [](const torch::Tensor& u) {
        const Environment environment{{scalar(0.3), scalar(0.7)},
                                      [&u](const Derivative& d) {
                                        return Jet::constant(u[d.orders[0]]);
                                      }};
        return parse("u*u_x - nu*u_xx + u^3*sin(x*u)")
            .evaluate(environment)
            .value()
            .sum();
      },
      testing::random({3, 4}, "expression/u")));
}

}  // namespace
}  // namespace propagator::pde
