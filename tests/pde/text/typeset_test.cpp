#include "propagator/pde/text/typeset.h"

#include <gtest/gtest.h>

#include <regex>

#include "propagator/pde/text/syntax_error.h"

// Formulas as a page shows them.

namespace propagator::pde {
namespace {

const autodiff::Symbols kSymbols{{"x", "t", "tau"}, {"u"}, {}};

// A line with the marks of indices, powers, fractions and roots alone.
std::string seen(const std::string& line) {
  auto text = typeset(line, kSymbols);
  const auto replace = [&text](const char* what, const char* by) {
    text = std::regex_replace(text, std::regex(what), by);
  };
  replace("&#x206[12];|</?(mi|mn|mo|mtext)( [^>]*)?>|</?math[^>]*>", "");
  replace("<mspace[^>]*>|&#xa0;", " ");
  replace("</?mrow>", "");
  return text;
}

TEST(PdeTypeset, DerivativesHaveIndices) {
  EXPECT_EQ(seen("u_t = nu*u_xx"), "<msub>ut</msub>=ν<msub>uxx</msub>");
  EXPECT_EQ(seen("u_xtau"), "<msub>uxτ</msub>");
  EXPECT_EQ(seen("u_n"), "<msub>un</msub>");  // no variable, but an index
  EXPECT_EQ(typeset("u_x", kSymbols),
            "<math displaystyle=\"true\"><msub><mi>u</mi><mrow><mi>x</mi>"
            "</mrow></msub></math>");
  EXPECT_EQ(seen("d(u*x, x, 2)"),
            "<mfrac><msup>∂2</msup>∂<msup>x2</msup></mfrac>(ux)");
}

TEST(PdeTypeset, BracketsStandWhereTheyAreNeeded) {
  EXPECT_EQ(seen("(a + b)*c"), "(a+b)c");
  EXPECT_EQ(seen("a - (b - c)"), "a−(b−c)");
  EXPECT_EQ(seen("(a*b)*c"), "abc");
  EXPECT_EQ(seen("(a + b)/(c + d)"), "<mfrac>a+bc+d</mfrac>");
  EXPECT_EQ(seen("(a/b)^2"), "<msup>(<mfrac>ab</mfrac>)2</msup>");
  EXPECT_EQ(seen("sin(x)^2"), "<msup>(sin(x))2</msup>");
  EXPECT_EQ(seen("-x^2"), "−<msup>x2</msup>");
  EXPECT_EQ(seen("a**-(b + c)"), "<msup>a−(b+c)</msup>");
}

TEST(PdeTypeset, ProductsCanBeReadApart) {
  EXPECT_EQ(seen("2*3*x"), "2·3x");
  EXPECT_EQ(seen("hares*foxes"), "hares·foxes");
  EXPECT_EQ(seen("x*cos(x)"), "x cos(x)");
  EXPECT_EQ(seen("beta*eps"), "βε");
}

TEST(PdeTypeset, FunctionsAsTheyAreWritten) {
  EXPECT_EQ(seen("exp(-x)"), "<msup>e−x</msup>");
  EXPECT_EQ(seen("sqrt(x + 1)"), "<msqrt>x+1</msqrt>");
  EXPECT_EQ(seen("abs(u)^2"), "<msup>|u|2</msup>");
  EXPECT_EQ(seen("-div(k*grad(u)) = laplacian(u)"), "−∇·(k∇u)=Δu");
  EXPECT_EQ(seen("dot((u, v), grad(u))"), "(u,v)·∇u");
  EXPECT_NE(seen("if(x < 0.5, 1, 0)").find("where x&lt;0.5"),
            std::string::npos);
}

TEST(PdeTypeset, LinesOfAProblem) {
  EXPECT_EQ(seen("x in [-1, pi/2]"), "x∈[−1,<mfrac>π2</mfrac>]");
  EXPECT_EQ(seen("at t=0: u = 1e-3*x"), "at t=0: u=<msup>10−3</msup>x");
  EXPECT_EQ(seen("on boundary: u0 = 2.5e+6"),
            "on boundary: <msub>u0</msub>=2.5·<msup>106</msup>");
  EXPECT_EQ(seen("complex psi(x, t)"), "complex ψ(x,t)");
}

TEST(PdeTypeset, WhatIsNoFormulaHasAFormOrIsAnError) {
  for (const char* line : {"", ")", "(", "u_", "_", "= =", "f(", "2^", "a,,b",
                           "if(", "d(u)", "u : : t", "x in in [", "- -"}) {
    const auto text = typeset(line, kSymbols);
    EXPECT_TRUE(text.starts_with("<math")) << line;
  }
  EXPECT_THROW(typeset("u <b>{x}</b>", kSymbols), SyntaxError);
  EXPECT_EQ(typeset("a <b> c", kSymbols).find("<b>"), std::string::npos);
}

}  // namespace
}  // namespace propagator::pde
