#include "propagator/pde/text/expression_parser.h"

#include <fmt/format.h>

#include "propagator/pde/text/syntax_error.h"

// Sums, products, powers and brackets; what is called and named is in
// expression_calls.cpp.

namespace propagator::pde {
namespace {

constexpr int kDeepest = 200;          // brackets and powers within each other
constexpr size_t kMostNodes = 20'000;  // nodes of complex numbers and vectors

bool is_operator(const Token& token) {
  return token.is("+") || token.is("-") || token.is("*") || token.is("/") ||
         token.is("^");
}

}  // namespace

bool starts_operand(const Token& token) {
  return token.kind == Token::Kind::kNumber ||
         token.kind == Token::Kind::kName || token.is("(");
}

bool is_comparison(const Token& token) {
  return token.is("<") || token.is("<=") || token.is(">") || token.is(">=");
}

Scalar Parser::line(bool equation) {
  if (tokens_.size() == 1) {
    fail("the text is empty", here(), here(),
         equation ? "write an equation, such as u_t = u_xx"
                  : "write a formula, such as sin(pi*x)");
  }
  auto left = sum_of_products();
  if (here().is("=")) {
    if (!equation) {
      fail("expected a formula, got an equation", here(), here(),
           "leave out the '=' and what does not belong to the formula");
    }
    const size_t sign = at_++;
    const auto right = sum_of_products();
    if (left.is_vector != right.is_vector) {
      fail("one side of the equation is a vector, the other a number",
           tokens_[left.is_vector ? 0 : sign + 1],
           left.is_vector ? tokens_[sign - 1] : before(), kForVectors);
    }
    left = folded(0, [&] { return total({left, opposite(right)}); });
  }
  if (here().kind != Token::Kind::kEnd) fail_behind_operand();
  const char* what = equation ? "an equation needs" : "expected";
  return folded(0, [&] { return Value(left.scalar(what)); }).parts[0];
}

void Parser::fail(const std::string& sentence, const Token& first,
                  const Token& last, const std::string& hint) const {
  throw SyntaxError(sentence, text_, first.at, last.end() - first.at, hint);
}

void Parser::fail_as_a_whole(const std::string& sentence,
                             const std::string& hint) const {
  fail(sentence, tokens_.front(), before(), hint);
}

void Parser::expect_short(size_t start, const Value& made) const {
  if (made.is_real() && !made.is_vector) return;
  if (made.size() <= kMostNodes) return;
  fail("this has too many terms when it is multiplied out", tokens_[start],
       before(), "name a part of the formula as a field of its own");
}

Value Parser::sum_of_products() {
  const size_t start = at_;
  std::vector<Value> terms;
  bool minus = here().is("-");
  if (minus || here().is("+")) ++at_;
  for (;;) {
    const size_t from = at_;
    const auto term = product_of_powers();
    if (!terms.empty() && term.is_vector != terms[0].is_vector) {
      fail(term.is_vector ? "a vector is added to a number"
                          : "a number is added to a vector",
           tokens_[from], before(), kForVectors);
    }
    terms.push_back(minus ? opposite(term) : term);
    minus = here().is("-");
    if (!minus && !here().is("+")) break;
    ++at_;
  }
  return folded(start, [&] { return total(terms); });
}

Value Parser::product_of_powers() {
  const size_t start = at_;
  std::vector<Value> factors{power_of_operands()};
  while (here().is("*") || here().is("/")) {
    const bool divide = here().is("/");
    const size_t from = ++at_;
    const auto factor = power_of_operands();
    if (divide && !factor.is_vector && factor.is_real() &&
        factor.parts[0].real->is_number(0)) {
      fail("division by zero", tokens_[from - 1], before(), "");
    }
    factors.push_back(divide ? folded(from, [&] { return inverse(factor); })
                             : factor);
  }
  return folded(start, [&] { return times(factors); });
}

Value Parser::power_of_operands() {
  const size_t start = at_;
  const auto base = operand();
  if (!here().is("^")) return base;
  enter(here());
  ++at_;
  const bool minus = here().is("-");
  if (minus || here().is("+")) ++at_;
  const auto exponent = power_of_operands();
  --depth_;
  return folded(start, [&] {
    return raised(base, minus ? opposite(exponent) : exponent);
  });
}

Value Parser::operand() {
  const auto token = here();
  if (token.kind == Token::Kind::kNumber) {
    ++at_;
    return {number(token.number)};
  }
  if (token.is("(")) return in_brackets();
  if (token.kind != Token::Kind::kName) fail_without_operand();
  ++at_;
  return here().is("(") ? called(token) : named(token);
}

Value Parser::in_brackets() {
  const auto open = here();
  const size_t start = at_;
  enter(open);
  ++at_;
  if (here().is(")")) {
    fail("nothing stands in the brackets", open, here(), "");
  }
  auto inner = sum_of_products();
  std::vector<Scalar> components;
  while (here().is(",")) {
    const auto add = [&](const Value& component) {
      components.push_back(component.scalar("a component of a vector is"));
      return Value();
    };
    if (components.empty()) folded(start + 1, [&] { return add(inner); });
    const size_t from = ++at_;
    inner = sum_of_products();
    folded(from, [&] { return add(inner); });
  }
  close(open);
  --depth_;
  return components.empty() ? inner : Value(std::move(components));
}

void Parser::enter(const Token& token) {
  if (++depth_ > kDeepest) {
    fail("brackets or powers nest too deeply", token, token,
         fmt::format("{} of them may stand within each other", kDeepest));
  }
}

void Parser::close(const Token& open) {
  if (here().kind == Token::Kind::kEnd || here().is("=")) {
    fail("'(' is never closed", open, open, "add the ')' that belongs to it");
  }
  if (!here().is(")")) fail_behind_operand();
  ++at_;
}

void Parser::fail_without_operand() const {
  const auto& token = here();
  if (token.is("[") || token.is("]") || token.is(":")) fail_behind_operand();
  const bool behind_operator = !at_start() && is_operator(before());
  if (is_operator(token)) {
    if (behind_operator) {
      const bool is_sign = token.is("+") || token.is("-");
      fail(fmt::format("two operators, '{}' and '{}', follow each other",
                       before().text, token.text),
           before(), token,
           is_sign ? fmt::format("put brackets around it: {}({}…)",
                                 before().text, token.text)
                   : "leave one of them out");
    }
    fail(fmt::format("nothing stands before '{}'", token.text), token, token,
         "");
  }
  if (token.is("=") && !at_start() && before().is("=")) fail_behind_operand();
  if (behind_operator ||
      (!at_start() && (before().is("=") || before().is(",")))) {
    fail(fmt::format("nothing stands behind '{}'", before().text), before(),
         before(), "");
  }
  if (token.is("=")) {
    fail("nothing stands before '='", token, token, "");
  }
  if (token.is(")") && depth_ == 0) fail_behind_operand();
  if (token.kind == Token::Kind::kEnd) {
    fail("'(' is never closed", before(), before(),
         "add what belongs in the brackets, and the ')'");
  }
  fail(fmt::format("unexpected '{}'", token.text), token, token, "");
}

void Parser::fail_behind_operand() const {
  const auto& token = here();
  if (starts_operand(token)) {
    const auto left = before().is(")") ? "(…)" : before().text;
    const auto right = token.is("(") ? "(…)" : token.text;
    fail(fmt::format("no operator stands between '{}' and '{}'", before().text,
                     token.text),
         before(), token, fmt::format("write {}*{}", left, right));
  }
  if (token.is(")")) {
    fail("')' closes nothing", token, token,
         "leave it out, or add the '(' that belongs to it");
  }
  if (token.is("=")) {
    fail("more than one '='", token, token, "an equation has one");
  }
  if (is_comparison(token)) {
    fail(fmt::format("'{}' outside of if(…)", token.text), token, token,
         "compare in if(x < 0.5, a, b), which is a where that holds and b "
         "elsewhere");
  }
  if (token.is(",")) {
    fail("',' outside of a function's brackets", token, token,
         "write numbers with a point: 0.5");
  }
  fail(fmt::format("unexpected '{}'", token.text), token, token, "");
}

std::vector<NodePtr> parse_parts(const std::string& text, size_t from,
                                 size_t to, bool equation,
                                 const Symbols& symbols) {
  const auto all = Parser(text, from, to, symbols).line(equation);
  if (!all.imaginary) return {all.real};
  return {all.real, all.imaginary};
}

NodePtr parse_tree(const std::string& text, size_t from, size_t to,
                   bool equation, const Symbols& symbols) {
  Parser parser(text, from, to, symbols);
  const auto all = parser.line(equation);
  if (!all.imaginary) return all.real;
  parser.fail_as_a_whole("expected a real formula, got a complex one",
                         "write re(…), im(…) or abs(…)");
}

}  // namespace propagator::pde
