#include <cmath>

#include "propagator/pde/text/expression.h"
#include "testing.h"

// grad, div, laplacian and dot; max, min, heaviside and if.

namespace propagator::pde {
namespace {

using testing::near;

const Symbols kPlane{{"x", "y", "t"}, {"u", "v"}, {{"c", 2.0}}};

std::string normal(const std::string& text) {
  return Expression::parse(text, kPlane).text();
}

// At x, y = 0.3 and t = 2.
double value(const Expression& formula, double x) {
  const auto scalar = [](double number) {
    return Jet::constant(torch::full({}, number, torch::kFloat64));
  };
  return formula.evaluate({{scalar(x), scalar(0.3), scalar(2)}, {}})
      .value()
      .item<double>();
}

double value(const std::string& text, double x) {
  return value(Expression::parse(text, kPlane), x);
}

struct Wrong {
  std::string marked, sentence, hint;
};

Wrong wrong(const std::string& text, const Symbols& symbols = kPlane) {
  try {
    Expression::parse_equation(text, symbols);
  } catch (const SyntaxError& error) {
    return {text.substr(error.position(), error.length()), error.sentence(),
            error.hint()};
  }
  ADD_FAILURE() << "expected an error in: " << text;
  return {};
}

TEST(PdeOperators, AreThoseOfSpace) {
  EXPECT_EQ(normal("laplacian(u)"), "u_xx + u_yy");
  EXPECT_EQ(normal("div(grad(u))"), "u_xx + u_yy");
  EXPECT_EQ(normal("div(x*grad(u))"), "u_x + x*u_xx + x*u_yy");
  EXPECT_EQ(normal("dot(grad(u), grad(v))"), "u_x*v_x + u_y*v_y");
  EXPECT_EQ(normal("div(u, v)"), "u_x + v_y");
  EXPECT_EQ(normal("div((u, v)*u)"), normal("d(u*u, x) + d(v*u, y)"));
  EXPECT_EQ(normal("dot((u, v), grad(u))"), "u*u_x + v*u_y");
  EXPECT_EQ(normal("-div(grad(u)/c - (u, v))"),
            normal("-(d(u_x/c - u, x) + d(u_y/c - v, y))"));
  EXPECT_EQ(normal("laplacian(laplacian(u))"),
            normal("d(u, x, 4) + d(d(u, x, 2), y, 2) + d(d(u, x, 2), y, 2) + "
                   "d(u, y, 4)"));
  // The length of a vector; its square has no root.
  EXPECT_EQ(normal("abs(grad(u))^2"), "u_x^2 + u_y^2");
  EXPECT_EQ(normal("abs(grad(u))"), "sqrt(u_x^2 + u_y^2)");
  EXPECT_EQ(normal("abs(grad(u))^3"), "(u_x^2 + u_y^2)^1.5");
  // Time is none of them, whatever its name.
  auto symbols = kPlane;
  symbols.time = "x";
  EXPECT_EQ(Expression::parse("laplacian(u)", symbols).text(), "u_yy + u_tt");
  EXPECT_EQ(Expression::parse("div(grad(u))", {{"x"}, {"u"}, {}}).text(),
            "u_xx");
}

TEST(PdeOperators, VectorsInPlaceOfNumbersAndTheReverse) {
  auto found = wrong("u_t = grad(u)");
  EXPECT_EQ(found.marked, "grad(u)");
  EXPECT_EQ(found.sentence,
            "one side of the equation is a vector, the other a number");
  EXPECT_NE(found.hint.find("div(a)"), std::string::npos);
  found = wrong("grad(u) = grad(v)");
  EXPECT_EQ(found.sentence, "an equation needs a number, got a vector");
  found = wrong("u + sin(grad(u))");
  EXPECT_EQ(found.marked, "sin(grad(u))");
  EXPECT_EQ(found.sentence, "sin takes a number, got a vector");
  found = wrong("u_t = u/grad(u)");
  EXPECT_EQ(found.marked, "grad(u)");
  EXPECT_EQ(wrong("x + grad(u)*grad(v)").sentence, "a product of two vectors");
  EXPECT_EQ(wrong("grad(u)^2").marked, "grad(u)^2");
  EXPECT_EQ(wrong("c^grad(u)").sentence,
            "an exponent is a number, got a vector");
  EXPECT_EQ(wrong("dot(u, grad(u))").sentence,
            "dot takes two vectors, got a number");
  EXPECT_EQ(wrong("laplacian(grad(u))").sentence,
            "laplacian takes a number, got a vector");
  found = wrong("u_t + div(u)");
  EXPECT_EQ(found.marked, "div(u)");
  EXPECT_EQ(found.sentence,
            "div takes a vector with a component for each variable of space "
            "(x, y), got 1");
  EXPECT_EQ(wrong("div((u, v, u))").marked, "div((u, v, u))");
  EXPECT_EQ(wrong("dot((u, v, u), grad(u))").sentence,
            "dot takes two vectors with as many components, got 3 and 2");
  EXPECT_EQ(wrong("(u, grad(u))").marked, "grad(u)");
  EXPECT_EQ(wrong("(0,5)*u = 1").marked, "(0,5)*u");
  found = wrong("u_t + x*grad(u) - 1 = 0");
  EXPECT_EQ(found.marked, "x*grad(u)");
  EXPECT_EQ(found.sentence, "a vector is added to a number");
  EXPECT_EQ(wrong("grad(u) + 1").sentence, "a number is added to a vector");
  EXPECT_EQ(wrong("max(grad(u), 1)").sentence,
            "max and min take a number, got a vector");
  EXPECT_EQ(wrong("u_t = laplacian(u)", {{"t"}, {"u"}, {}}).sentence,
            "there is no variable of space: the only one is time");
}

TEST(PdeOperators, Arguments) {
  EXPECT_EQ(wrong("u + laplacian(u, v)").marked, ",");
  EXPECT_EQ(wrong("u + laplacian(u, v)").sentence,
            "laplacian takes 1 argument, got more");
  EXPECT_EQ(wrong("u + max(u)").marked, "max(u)");
  EXPECT_EQ(wrong("u + max(u)").sentence, "max takes 2 arguments, got 1");
  EXPECT_EQ(wrong("u + grad()").sentence, "grad has no argument");
  EXPECT_EQ(wrong("u + grad()").hint, "write grad(u)");
  EXPECT_EQ(wrong("u + grad").hint, "write its argument in brackets: grad(…)");
  EXPECT_EQ(wrong("lapacian(u)").hint, "did you mean laplacian?");
  // A name that the text declares keeps its meaning.
  const Symbols own{{"x"}, {"u"}, {{"re", 40.0}, {"div", 3.0}}};
  EXPECT_EQ(Expression::parse("u/re + div", own).text(), "0.025*u + 3");
  EXPECT_EQ(wrong("re(u)", own).sentence, "re is a number, not a function");
}

TEST(PdeOperators, PiecewiseFormulas) {
  EXPECT_EQ(value("max(x, t)", 1), 2);
  EXPECT_EQ(value("max(x, t, 7)", 3), 7);
  EXPECT_EQ(value("min(x, t)", 1), 1);
  EXPECT_EQ(value("min(x, t)", 3), 2);
  EXPECT_EQ(value("heaviside(x)", 0.1), 1);
  EXPECT_EQ(value("heaviside(x)", -0.1), 0);
  EXPECT_EQ(value("heaviside(x)", 0), 0.5);
  for (const auto& [sign, below, at, above] : {std::tuple{"<", 5, 7, 7},
                                               {"<=", 5, 5, 7},
                                               {">", 7, 7, 5},
                                               {">=", 7, 5, 5}}) {
    const auto text = fmt::format("if(x {} 0.5, 5, t + 5)", sign);
    EXPECT_EQ(value(text, 0.4), below) << text;
    EXPECT_EQ(value(text, 0.5), at) << text;
    EXPECT_EQ(value(text, 0.6), above) << text;
  }
  // Where it is not taken, a side may have no value.
  EXPECT_EQ(value("if(x > 0, sqrt(x), 0)", -4), 0);
  EXPECT_EQ(value("if(x > 0, sqrt(x), 0)", 4), 2);
  EXPECT_EQ(normal("if(1 < 2, x, t)"), "x");
  EXPECT_EQ(normal("max(1, 2) + min(1, 2) + heaviside(3)"), "4");
  for (const char* formula :
       {"max(x, t)", "min(x, t)", "if(x < t, x, t)", "heaviside(x)"}) {
    EXPECT_TRUE(Expression::parse(formula, kPlane).has_corners()) << formula;
  }
}

TEST(PdeOperators, DerivativesOfPiecewiseFormulasAgreeWithDifferences) {
  const double step = 1e-6;
  for (const char* text :
       {"max(x^2, t*x)", "min(sin(3*x), x*t/4)", "heaviside(x - 0.5)*x^2",
        "if(x < 0.5, x^3, t*sin(x))", "if(x >= y, max(x, t*x), exp(x))",
        "max(x^3, min(x, 0.5))"}) {
    const auto f = Expression::parse(text, kPlane);
    const auto slope = f.derivative(0);
    for (const double x : {-1.1, 0.21, 0.48, 0.9, 2.3}) {
      const double expected =
          (value(f, x + step) - value(f, x - step)) / (2 * step);
      EXPECT_NEAR(value(slope, x), expected, 1e-8 * (1 + std::abs(expected)))
          << text << " at " << x << ": " << slope.text();
    }
  }
  EXPECT_EQ(normal("d(if(x < t, 1, 2), x)"), "0");
}

// Formulas with a corner have the jets of their sides.
TEST(PdeOperators, MovingPointsGiveTheDerivativesOfASide) {
  const autodiff::JetLayout layout({3, 2});
  const auto points = testing::random({40, 3}, "operators/points");
  const auto directions =
      torch::tensor({{1.0, 0.0, 0.0}, {0.5, 1.0, 0.0}}, torch::kFloat64);
  const auto variables =
      autodiff::coordinates(Jet::moving(points, directions, layout));
  const auto jet = [&](const char* text) {
    return Expression::parse(text, kPlane).evaluate({variables, {}}).rows();
  };
  const auto is_left = points.select(1, 0) < points.select(1, 1);
  ASSERT_TRUE(is_left.any().item<bool>() && !is_left.all().item<bool>());
  for (const auto& [text, left, right] :
       {std::tuple{"if(x < y, sin(x*y), 3)", "sin(x*y)", "3"},
        {"if(x < y, 2, exp(y))", "2", "exp(y)"},
        {"max(x, y)", "y", "x"},
        {"min(x, y)", "x", "y"}}) {
    const auto sides = torch::where(is_left, jet(left), jet(right));
    EXPECT_TRUE(near(jet(text), sides, testing::kFloat64)) << text;
  }
}

TEST(PdeOperators, ShapesOfSidesBroadcast) {
  const auto x = testing::random({3, 1}, "operators/x");
  const auto y = testing::random({4}, "operators/y");
  const auto t = testing::random({2, 1, 1}, "operators/t");
  const auto found =
      Expression::parse("if(x < y, t, max(x, 0))", kPlane)
          .evaluate(
              {{Jet::constant(x), Jet::constant(y), Jet::constant(t)}, {}})
          .value();
  EXPECT_TRUE(
      near(found, torch::where(x < y, t, x.clamp_min(0)), testing::kFloat64));
}

TEST(PdeOperators, TextsOfPiecewiseFormulasParseToTheSameTree) {
  for (const char* text :
       {"max(x, -t)", "min(u_x, max(v, 2))^2", "-if(x < 0.5, 1, u)/x",
        "if(x >= t, x, if(u > v, -1, t))", "heaviside(x - 0.5)*u",
        "d(max(u*x, v), x)", "d(if(u <= x, u^2, v), t)", "if(x < 0.5, 0, -0)",
        "d(min(u, v)^3, x, 2)"}) {
    const auto once = Expression::parse(text, kPlane);
    EXPECT_EQ(Expression::parse(once.text(), kPlane), once)
        << text << " → " << once.text();
  }
  EXPECT_EQ(normal("if(x > t, u, v)"), "if(t < x, u, v)");
  EXPECT_FALSE(Expression::parse("if(x < t, u, v)", kPlane) ==
               Expression::parse("if(x <= t, u, v)", kPlane));
}

TEST(PdeOperators, ComparisonsStandInIfAlone) {
  auto found = wrong("u_t = x < 0.5");
  EXPECT_EQ(found.marked, "<");
  EXPECT_EQ(found.sentence, "'<' outside of if(…)");
  EXPECT_NE(found.hint.find("if(x < 0.5, a, b)"), std::string::npos);
  found = wrong("u + if(x, 1, 2)");
  EXPECT_EQ(found.marked, "x");
  EXPECT_EQ(found.sentence, "if begins with a comparison");
  found = wrong("u + if(x < 1, 2)");
  EXPECT_EQ(found.marked, "if(x < 1, 2)");
  EXPECT_EQ(found.sentence,
            "if takes a comparison and two formulas, got fewer");
  EXPECT_EQ(wrong("if(x < 1, 2, 3, 4)").marked, ",");
  EXPECT_EQ(wrong("if(0 < x < 1, 2, 3)").marked, "<");
  EXPECT_EQ(wrong("if(x = 1, 2, 3)").sentence, "'(' is never closed");
  EXPECT_EQ(wrong("if(x < 1, 2, 3").sentence, "'(' is never closed");
  EXPECT_EQ(wrong("if(x <, 2, 3)").marked, ",");
  EXPECT_EQ(wrong("if(x ≤ 1, 2, 3)").hint.substr(0, 8), "write <=");
  EXPECT_EQ(wrong("if(grad(u) < 1, 2, 3)").sentence,
            "a comparison is of a number, got a vector");
}

TEST(PdeOperators, GradientsGoThroughTheSideThatIsTaken) {
  EXPECT_TRUE(testing::gradient_is_right(
      [](const torch::Tensor& u) {
        const auto number =
            Jet::constant(torch::full({}, 0.1, torch::kFloat64));
        return Expression::parse("max(u, 0.1)^2 + if(u < x, sin(u), u^3)",
                                 kPlane)
            .evaluate({{number, number, number},
                       [&u](const Derivative&) { return Jet::constant(u); }})
            .value()
            .sum();
      },
      testing::random({9}, "operators/u")));
}

}  // namespace
}  // namespace propagator::pde
