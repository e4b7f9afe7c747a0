#include "propagator/pde/text/syntax_error.h"

#include "propagator/pde/text/expression.h"
#include "testing.h"

namespace propagator::pde {
namespace {

const Symbols kSymbols{
    {"x", "t"}, {"u", "velocity"}, {{"c", 2.0}, {"viscosity", 0.01}}};

// Where the caret of an error stands, what it underlines and what it says.
struct Complaint {
  size_t column;
  std::string marked, sentence, hint;
};

Complaint complaint(const std::string& text) {
  try {
    Expression::parse_equation(text, kSymbols);
  } catch (const SyntaxError& error) {
    const std::string what = error.what();
    const size_t last = what.rfind('\n');
    const auto line = what.substr(last + 1);
    EXPECT_EQ(what.substr(0, what.find('\n')), error.sentence());
    EXPECT_EQ(error.text(), text);
    const size_t caret = line.find('^');
    EXPECT_EQ(line.find_first_not_of("~", caret + 1), std::string::npos);
    return {caret - 2, text.substr(error.position(), error.length()),
            error.sentence(), error.hint()};
  }
  ADD_FAILURE() << "expected an error in: " << text;
  return {};
}

void expect(const std::string& text, size_t column, const std::string& marked,
            const std::string& sentence, const std::string& hint = "") {
  const auto found = complaint(text);
  EXPECT_EQ(found.column, column) << text;
  EXPECT_EQ(found.marked, marked) << text;
  EXPECT_EQ(found.sentence, sentence) << text;
  EXPECT_NE(found.hint.find(hint), std::string::npos)
      << text << " has the hint: " << found.hint;
}

TEST(PdeSyntaxError, MessageIsAPicture) {
  const auto message = testing::thrown<SyntaxError>(
      [] { Expression::parse("u_t - sine(x)", kSymbols); });
  EXPECT_EQ(message,
            "unknown function 'sine'\n"
            "  u_t - sine(x)\n"
            "        ^~~~");
}

TEST(PdeSyntaxError, ColumnsAreCharactersNotBytes) {
  expect("π*π*x + w", 8, "w",
         "unknown name 'w': no variable, field or parameter");
}

TEST(PdeSyntaxError, ShowsTheLineOfALongText) {
  const auto message = testing::thrown<SyntaxError>(
      [] { Expression::parse("u_t\n  - nope\n  + u", kSymbols); });
  EXPECT_EQ(message.substr(message.find('\n')), "\n    - nope\n      ^~~~");
}

TEST(PdeSyntaxError, UnknownNames) {
  expect("u_t - foo(x)", 6, "foo", "unknown function 'foo'",
         "the functions are");
  expect("u - sqroot(x)", 4, "sqroot", "unknown function 'sqroot'",
         "did you mean sqrt?");
  expect("u_t - viscosty*u", 6, "viscosty",
         "unknown name 'viscosty': no variable, field or parameter",
         "did you mean viscosity?");
  expect("k*u", 0, "k", "unknown name 'k': no variable, field or parameter",
         "as a parameter k = 1");
  expect("u + v_x", 4, "v", "derivative of an unknown field 'v'",
         "the fields are u, velocity");
  expect("velocty_xt", 0, "velocty", "derivative of an unknown field 'velocty'",
         "did you mean velocity?");
  expect("u_t + u_y", 8, "y", "derivative of u by an unknown variable 'y'",
         "the variables are x, t");
  expect("u_xy", 3, "y", "derivative of u by an unknown variable 'y'");
  expect("u_yx", 2, "yx", "derivative of u by an unknown variable 'yx'");
  expect("u_ + 1", 1, "_", "no variable stands behind '_'");
}

TEST(PdeSyntaxError, DerivativesAsInBooks) {
  const std::string no_quotient = "a derivative is no quotient here";
  expect("du/dt = u_xx", 0, "du/dt", no_quotient, "write u_t, or d(…, t)");
  expect("u + c*d^2u/dx^2", 6, "d^2u/dx^2", no_quotient, "write u_xx");
  expect("d2u/dx2 + u", 0, "d2u/dx2", no_quotient, "write u_xx");
  expect("d ^2 u / d x^2", 0, "d ^2 u / d x^2", no_quotient, "write u_xx");
  expect("dvelocity/dx", 0, "dvelocity/dx", no_quotient, "velocity_x");
  // Neither of a field nor by a variable.
  expect("dw/dt", 0, "dw",
         "unknown name 'dw': no variable, field or parameter");
  expect("du/dy", 0, "du",
         "unknown name 'du': no variable, field or parameter");
  expect("du/dx2", 0, "du",
         "unknown name 'du': no variable, field or parameter");
}

TEST(PdeSyntaxError, Brackets) {
  expect("u*(x + 1", 2, "(", "'(' is never closed");
  expect("(u*(x + 1)", 0, "(", "'(' is never closed");
  expect("(u = x)", 0, "(", "'(' is never closed");
  expect("sin(x", 3, "(", "'(' is never closed");
  expect("u*x + 1)", 7, ")", "')' closes nothing");
  expect(")", 0, ")", "')' closes nothing");
  expect("u + (", 4, "(", "'(' is never closed");
  expect("u + ()", 4, "()", "nothing stands in the brackets");
  expect("u + [x]", 4, "[", "unexpected '['");
  expect("u, x", 1, ",", "',' outside of a function's brackets",
         "with a point");
}

TEST(PdeSyntaxError, Operands) {
  expect("u_t +", 4, "+", "nothing stands behind '+'");
  expect("u_t + = 0", 4, "+", "nothing stands behind '+'");
  expect("(u *)", 3, "*", "nothing stands behind '*'");
  expect("*u", 0, "*", "nothing stands before '*'");
  expect("(/u)", 1, "/", "nothing stands before '/'");
  expect("u + * x", 2, "+ *", "two operators, '+' and '*', follow each other",
         "leave one");
  expect("u*-x", 1, "*-", "two operators, '*' and '-', follow each other",
         "*(-…)");
  expect("u =", 2, "=", "nothing stands behind '='");
  expect("= u", 0, "=", "nothing stands before '='");
  expect("-", 0, "-", "nothing stands behind '-'");
  expect("", 0, "", "the text is empty");
  expect("  ", 2, "", "the text is empty");
  expect("u = 1 = 2", 6, "=", "more than one '='");
  expect("u == 1", 3, "=", "more than one '='");
}

TEST(PdeSyntaxError, ImpliedProducts) {
  expect("u_tt - 4u_xx", 7, "4u_xx",
         "no operator stands between '4' and 'u_xx'", "write 4*u_xx");
  expect("2 x", 0, "2 x", "no operator stands between '2' and 'x'",
         "write 2*x");
  expect("2(x + 1)", 0, "2(", "no operator stands between '2' and '('",
         "write 2*(…)");
  expect("(x)(t)", 2, ")(", "no operator stands between ')' and '('",
         "write (…)*(…)");
  expect("(x)u", 2, ")u", "no operator stands between ')' and 'u'",
         "write (…)*u");
  expect("(x t)", 1, "x t", "no operator stands between 'x' and 't'");
  expect("2exp(x)", 0, "2exp", "no operator stands between '2' and 'exp'");
  expect("u x^2", 0, "u x", "no operator stands between 'u' and 'x'");
}

TEST(PdeSyntaxError, Numbers) {
  expect("u + 1.2.3", 4, "1.2.3", "malformed number '1.2.3'");
  expect("u + .", 4, ".", "malformed number '.'");
  expect("1..2*u", 0, "1..2", "malformed number '1..2'");
  expect("u + 1e", 4, "1e", "malformed number '1e'", "1*e");
  expect("u + 1e+", 4, "1e", "malformed number '1e'");
  expect("1e-3.5*u", 0, "1e-3.5", "malformed number '1e-3.5'");
  expect("u + 1e999", 4, "1e999", "the number 1e999 is too large or too small");
  expect("u + 1/0", 5, "/0", "division by zero");
  expect("u/(1 - 1)", 1, "/(1 - 1)", "division by zero");
  expect("u + log(0)", 4, "log(0)", "log(0) has no finite value");
  expect("u*sqrt(1 - 2)", 2, "sqrt(1 - 2)", "sqrt(-1) has no finite value");
  expect("u*1e300*1e300", 0, "u*1e300*1e300", "this has no finite value");
  expect("u + (-2)^x", 4, "(-2)^x",
         "-2 to a power that is not constant has no value");
}

TEST(PdeSyntaxError, Calls) {
  expect("u + sin()", 4, "sin()", "sin has no argument", "sin(x)");
  expect("u + sin", 4, "sin", "sin has no argument", "sin(…)");
  expect("sin x", 0, "sin", "sin has no argument");
  expect("d*u", 0, "d", "d has no argument", "d(u, x)");
  expect("u + sin(x, t)", 9, ",", "sin takes one argument, got more");
  expect("u + u(x)", 4, "u",
         "u is called, but a field stands for its value at the point",
         "write u without arguments");
  expect("u_x(x, t)", 0, "u_x",
         "u_x is called, but a field stands for its value at the point");
  expect("x(t + 1)", 0, "x", "x is a number, not a function", "write x*(…)");
  expect("c(t + 1)", 0, "c", "c is a number, not a function");
  expect("d()", 0, "d()", "d has no argument");
  expect("u - d(u)", 4, "d(u)",
         "d takes a formula and a variable, got one argument");
  expect("d(u, y)", 5, "y", "expected a variable (x, t), got 'y'");
  expect("d(u, 2)", 5, "2", "expected a variable (x, t), got '2'");
  expect("d(u, x, t)", 8, "t", "expected a whole number from 1 to 8, got 't'",
         "d(d(u, x), t)");
  expect("d(u, x, 1.5)", 8, "1.5",
         "expected a whole number from 1 to 8, got '1.5'");
  expect("d(u, x, 9)", 8, "9", "expected a whole number from 1 to 8, got '9'");
  expect("d(u, x, 2, 3)", 9, ",", "d takes at most three arguments, got more");
  expect("d(u, )", 3, ",", "nothing stands behind ','");
  expect("d(u, x", 1, "(", "'(' is never closed");
  expect("d(u", 1, "(", "'(' is never closed");
}

TEST(PdeSyntaxError, Characters) {
  expect("u − x", 2, "−", "unexpected character '−'",
         "write -; formulas are plain ASCII, but for Greek letters");
  expect("∂u/∂t", 0, "∂", "unexpected character '∂'", "u_x or d(u, x)");
  expect("c²*u", 1, "²", "unexpected character '²'", "write ^2");
  expect("√2*u", 0, "√", "unexpected character '√'", "write sqrt(…)");
  expect("u·x", 1, "·", "unexpected character '·'", "write *");
  expect("u'", 1, "'", "unexpected character '''", "u_x");
  expect("u $ x", 2, "$", "unexpected character '$'");
  expect("u: x", 1, ":", "unexpected ':'");
}

TEST(PdeSyntaxError, ExpressionIsNoEquation) {
  const auto message = testing::thrown<SyntaxError>(
      [] { Expression::parse("u = 1", kSymbols); });
  EXPECT_EQ(message, "expected a formula, got an equation\n  u = 1\n    ^");
}

TEST(PdeSyntaxError, WhatIsTooLargeIsRefused) {
  const std::string deep(100'000, '(');
  EXPECT_THROW(Expression::parse(deep, kSymbols), SyntaxError);
  std::string powers = "x";
  for (int i = 0; i < 100'000; ++i) powers += "^x";
  EXPECT_THROW(Expression::parse(powers, kSymbols), SyntaxError);
  const std::string shell = "exp(sin(u*x)*tan(u*t)*tanh(x*t*u))";
  expect("d(" + shell + ", x, 8)", 0, "d(" + shell + ", x, 8)",
         "this derivative has too many terms");
  std::string calls = "x";
  for (int i = 0; i < 150; ++i) calls = "sin(" + calls + ")";
  EXPECT_NO_THROW(Expression::parse(calls, kSymbols));
}

// Whatever is typed is read, and then prints as what it is, or is refused
// with a place inside the text; numbers in it may meet to make an infinity.
TEST(PdeSyntaxError, AnyTextIsReadOrRefused) {
  const std::vector<std::string> pieces = {
      "u",   "x", "t", "u_x",       "u_xt",   "c",      "pi", "2",   "0.5",
      "1e3", "+", "-", "*",         "/",      "^",      "(",  ")",   "(",
      ")",   ",", "=", "sin",       "d",      "log",    "**", "abs", "0",
      "-1",  "π", " ", "d(u*x, x)", "exp(x)", "(x + 1)"};
  const auto draws = testing::random({20'000, 12}, "syntax/draws");
  const auto table = draws.accessor<double, 2>();
  int64_t read = 0;
  for (int64_t i = 0; i < draws.size(0); ++i) {
    const auto length = 1 + static_cast<int64_t>((table[i][0] + 1) * 5);
    std::string text;
    for (int64_t k = 1; k <= length; ++k) {
      text += pieces[static_cast<size_t>((table[i][k] + 1) / 2 *
                                         static_cast<double>(pieces.size()))];
    }
    try {
      const auto expression = Expression::parse(text, kSymbols);
      ++read;
      EXPECT_EQ(Expression::parse(expression.text(), kSymbols), expression)
          << text << " → " << expression.text();
    } catch (const SyntaxError& error) {
      EXPECT_LE(error.position() + error.length(), text.size()) << text;
      EXPECT_EQ(error.text(), text);
    }
  }
  EXPECT_GT(read, 500);
}

}  // namespace
}  // namespace propagator::pde
