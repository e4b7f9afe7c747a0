#include <complex>

#include "propagator/pde/text/problem.h"
#include "testing.h"

// Complex fields, which are two real ones.

namespace propagator::pde {
namespace {

using testing::near;
using Number = std::complex<double>;

ProblemText schroedinger() {
  return {.domain = {"x in [-5, 5]", "t in [0, 1]"},
          .fields = {"complex psi"},
          .equations = {"i*psi_t + 0.5*psi_xx + abs(psi)^2*psi = 0"},
          .conditions = {"at t=0: psi = 2/cosh(x)", "periodic x"}};
}

std::string refused(ProblemText text) {
  try {
    Problem::parse(text);
  } catch (const ProblemError& error) {
    return fmt::format("{} | {}", error.what(), error.hint());
  }
  return "none";
}

const Symbols kComplex{.variables = {"x", "t"},
                       .fields = {"psi_re", "psi_im", "u"},
                       .constants = {{"c", 2.0}},
                       .complex_fields = {"psi"}};

// With psi = 0.7 - 0.4i, u = 0.3, x = 0.6 and every derivative twice the field.
Number complex_value(const std::string& text) {
  const auto scalar = [](double number) {
    return Jet::constant(torch::full({}, number, torch::kFloat64));
  };
  const Environment environment{
      {scalar(0.6), scalar(0.2)}, [&](const Derivative& derivative) {
        const double fields[] = {0.7, -0.4, 0.3};
        return scalar(fields[derivative.field] *
                      (derivative.order() > 0 ? 2 : 1));
      }};
  const auto parts = Expression::parse_parts(text, kComplex);
  const auto number = [&](size_t n) {
    return n < parts.size()
               ? parts[n].evaluate(environment).value().item<double>()
               : 0;
  };
  return {number(0), number(1)};
}

TEST(PdeComplex, OneEquationIsTwo) {
  const auto problem = Problem::parse(schroedinger());
  EXPECT_EQ(problem.symbols.fields,
            (std::vector<std::string>{"psi_re", "psi_im"}));
  ASSERT_EQ(problem.equations.size(), 2u);
  EXPECT_EQ(problem.equations[0].text(),
            "-psi_im_t + 0.5*psi_re_xx + (psi_re^2 + psi_im^2)*psi_re");
  EXPECT_EQ(problem.equations[1].text(),
            "psi_re_t + 0.5*psi_im_xx + (psi_re^2 + psi_im^2)*psi_im");
  ASSERT_EQ(problem.conditions.size(), 3u);
  EXPECT_EQ(problem.conditions[0].residual.text(), "psi_re - 2/cosh(x)");
  EXPECT_EQ(problem.conditions[1].residual.text(), "psi_im");
  EXPECT_EQ(problem.conditions[1].text, "at t=0: psi = 2/cosh(x)");
  EXPECT_EQ(problem.conditions[2].matched.size(), 4u);
  EXPECT_TRUE(problem.remarks.empty()) << problem.remarks[0];
}

TEST(PdeComplex, AgreesWithComplexNumbers) {
  const Number psi(0.7, -0.4), i(0, 1);
  const double u = 0.3, x = 0.6;
  const auto close = [](const std::string& text, Number expected) {
    EXPECT_NEAR(complex_value(text).real(), expected.real(), 1e-14) << text;
    EXPECT_NEAR(complex_value(text).imag(), expected.imag(), 1e-14) << text;
  };
  close("i", i);
  close("i^2", -1);
  close("psi", psi);
  close("psi_xt*i", 2.0 * i * psi);
  close("i*psi*u - psi/2", i * psi * u - psi / 2.0);
  close("psi*psi*psi", psi * psi * psi);
  close("(1 + i*x)*psi/(psi - i)", (1.0 + i * x) * psi / (psi - i));
  close("u/psi", u / psi);
  close("psi^3", psi * psi * psi);
  close("psi^-2", 1.0 / (psi * psi));
  close("psi^0", 1);
  close("abs(psi)", std::abs(psi));
  close("abs(psi)^2", std::norm(psi));
  close("abs(psi)^3", std::pow(std::abs(psi), 3));
  close("conj(psi)", std::conj(psi));
  close("psi*conj(psi)", std::norm(psi));
  close("psi*psi*conj(psi)", std::norm(psi) * psi);
  close("re(psi) + i*im(psi)", psi);
  close("re(i*psi)", (i * psi).real());
  close("im(u)", 0);
  close("exp(i*x)", std::exp(i * x));
  close("e^(i*x)", std::exp(i * x));
  close("1^i", 1);
  close("1^(i*psi)", 1);
  close("2^psi", std::pow(2, psi));
  close("exp(psi)", std::exp(psi));
  close("sin(psi)", std::sin(psi));
  close("cos(psi)", std::cos(psi));
  close("sinh(psi)", std::sinh(psi));
  close("cosh(psi)", std::cosh(psi));
  close("d(exp(i*x*c), x)", 2.0 * i * std::exp(2.0 * i * x));
  close("d(psi^2, x)", 2.0 * psi * 2.0 * psi);
  close("laplacian(psi)", 2.0 * psi);
  close("dot(grad(psi), grad(psi))", 4.0 * psi * psi);
  close("abs(grad(psi))^2", std::norm(2.0 * psi));
  close("if(x < 1, psi, u)", psi);
  close("if(x < 1, u, psi)", u);
}

TEST(PdeComplex, SquaresOfAbsoluteValuesHaveNoRoot) {
  const auto text = [](const char* formula) {
    const auto parts = Expression::parse_parts(formula, kComplex);
    EXPECT_EQ(parts.size(), 1u) << formula;
    return parts[0].text();
  };
  EXPECT_EQ(text("abs(psi)^2"), "psi_re^2 + psi_im^2");
  EXPECT_EQ(text("abs(psi)^4"), "(psi_re^2 + psi_im^2)^2");
  EXPECT_EQ(text("psi*conj(psi)"), "psi_re^2 + psi_im^2");
  EXPECT_EQ(text("conj(psi)*psi"), "psi_re^2 + psi_im^2");
  EXPECT_EQ(text("abs(psi)"), "sqrt(psi_re^2 + psi_im^2)");
}

TEST(PdeComplex, ExactSolutionsHaveBothParts) {
  auto text = schroedinger();
  text.equations = {"i*psi_t + 0.5*psi_xx = 0"};
  text.conditions = {"at t=0: psi = exp(i*pi*x)", "periodic x: psi, psi_x"};
  text.exact = {"psi = exp(i*(pi*x - pi^2*t/2))"};
  const auto problem = Problem::parse(text);
  EXPECT_EQ(problem.conditions.back().matched.size(), 4u);
  const auto points = testing::random({7, 2}, "complex/points");
  const auto fields = problem.exact_fields(Jet::constant(points)).value();
  const auto angle =
      std::numbers::pi * points.select(1, 0) -
      std::numbers::pi * std::numbers::pi / 2 * points.select(1, 1);
  EXPECT_TRUE(near(fields.select(1, 0), torch::cos(angle), testing::kFloat64));
  EXPECT_TRUE(near(fields.select(1, 1), torch::sin(angle), testing::kFloat64));
  text.conditions[0] = "at t=0: psi = 1";
  text.exact = {"psi = 1"};  // real
  EXPECT_EQ(Problem::parse(text).exact[1].constant(), 0.0);
}

TEST(PdeComplex, StandsBesideRealFields) {
  auto text = schroedinger();
  text.fields = {"complex psi", "v"};
  text.equations = {"i*psi_t + psi_xx = v*psi", "v_t = abs(psi)^2"};
  text.conditions.push_back("at t=0: v = 0");
  const auto problem = Problem::parse(text);
  EXPECT_EQ(problem.symbols.fields,
            (std::vector<std::string>{"psi_re", "psi_im", "v"}));
  EXPECT_EQ(problem.equations.size(), 3u);
  EXPECT_EQ(problem.equations[2].text(), "v_t - (psi_re^2 + psi_im^2)");
  // An equation without a real part is one.
  text.equations[1] = "i*v_t = i*abs(psi)^2";
  EXPECT_EQ(Problem::parse(text).equations.size(), 3u);
}

TEST(PdeComplex, ErrorsPointAtTheCharacter) {
  auto text = schroedinger();
  text.equations = {"i*psi_t + 0.5*psi_xy = 0"};
  EXPECT_EQ(refused(text).substr(0, refused(text).find(" |")),
            "equations[0]: derivative of psi by an unknown variable 'y'\n"
            "  i*psi_t + 0.5*psi_xy = 0\n"
            "                     ^");
  text.equations = {"i*psi_t + log(psi) = 0"};
  EXPECT_NE(refused(text).find("log takes a real number, got a complex one\n"
                               "  i*psi_t + log(psi) = 0\n"
                               "            ^~~~~~~~"),
            std::string::npos)
      << refused(text);
  text.equations = {"i*psi_t = max(psi, 0)"};
  EXPECT_NE(refused(text).find("max and min take a real number"),
            std::string::npos);
  text.equations = {"i*psi_t = psi^0.5"};
  EXPECT_NE(refused(text).find("that is no whole number"), std::string::npos);
  text.equations = {"i*psi_t = if(psi < 1, 1, 2)"};
  EXPECT_NE(refused(text).find("a comparison is of a real number"),
            std::string::npos);
  text.equations = {"psi_re = i"};
  EXPECT_NE(refused(text).find("the real or the imaginary part"),
            std::string::npos);
  text = schroedinger();
  text.exact = {"psi_re = exp(i*x)", "psi_im = 0"};
  EXPECT_NE(refused(text).find("expected a real formula, got a complex one\n"
                               "  psi_re = exp(i*x)\n"
                               "           ^~~~~~~~"),
            std::string::npos)
      << refused(text);
  text.exact = {"psi = 1", "psi_re = 1"};
  EXPECT_NE(refused(text).find("psi_re has two exact solutions"),
            std::string::npos);
  text.exact = {"psi_x = 1"};
  EXPECT_NE(refused(text).find("expected a field"), std::string::npos);
  text = schroedinger();
  text.fields = {"complex psi, psi_re"};
  EXPECT_NE(refused(text).find("the name psi_re is used twice"),
            std::string::npos);
  text.fields = {"complex psi phi"};
  EXPECT_NE(refused(text).find("expected ',', got 'phi'"), std::string::npos);
  text.fields = {"complex"};  // a field of this name
  EXPECT_NE(refused(text).find("unknown name 'i'"), std::string::npos);
}

TEST(PdeComplex, ProductsThatGrowWithoutEndAreRefused) {
  auto text = schroedinger();
  text.equations = {"i*psi_t = ((((psi + x)^8 + x)^8 + x)^8 + x)^8"};
  EXPECT_NE(refused(text).find("too many terms"), std::string::npos);
}

TEST(PdeComplex, AnOwnNameIsNoImaginaryUnit) {
  auto text = schroedinger();
  text.parameters = {"i = 3"};
  text.equations = {"i*psi_t + psi_xx = 0"};
  const auto problem = Problem::parse(text);
  EXPECT_EQ(problem.equations[0].text(), "3*psi_re_t + psi_re_xx");
}

}  // namespace
}  // namespace propagator::pde
