#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numbers>
#include <optional>

#include "propagator/core/config.h"
#include "propagator/pde/text/expression_node.h"
#include "propagator/pde/text/syntax_error.h"
#include "propagator/pde/text/tokens.h"
#include "propagator/pde/text/unknown_name.h"

namespace propagator::pde {
namespace {

constexpr int kDeepest = 200;        // brackets and powers within each other
constexpr size_t kLargest = 20'000;  // nodes of an expanded derivative
constexpr double kHighest = 8;       // n of d(f, x, n)

bool is_operator(const Token& token) {
  return token.is("+") || token.is("-") || token.is("*") || token.is("/") ||
         token.is("^");
}

bool starts_operand(const Token& token) {
  return token.kind == Token::Kind::kNumber ||
         token.kind == Token::Kind::kName || token.is("(");
}

// Recursive descent, one function for each level of the grammar:
//   line    = sum ["=" sum]
//   sum     = [sign] product {("+" | "-") product}
//   product = power {("*" | "/") power}
//   power   = operand ["^" [sign] power]
//   operand = number | name | name "(" sum {"," sum} ")" | "(" sum ")"
class Parser {
 public:
  Parser(const std::string& text, size_t from, size_t to,
         const Symbols& symbols)
      : text_(text), tokens_(tokenize(text, from, to)), symbols_(symbols) {}

  NodePtr line(bool equation) {
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
      ++at_;
      const auto right = sum_of_products();
      left = folded(0, [&] { return sum({left, negative(right)}); });
    }
    if (here().kind != Token::Kind::kEnd) fail_behind_operand();
    return left;
  }

 private:
  const Token& here() const { return tokens_[at_]; }
  const Token& before() const { return tokens_[at_ - 1]; }
  bool at_start() const { return at_ == 0; }

  [[noreturn]] void fail(const std::string& sentence, const Token& first,
                         const Token& last, const std::string& hint) const {
    throw SyntaxError(sentence, text_, first.at, last.end() - first.at, hint);
  }

  // Runs `make` and lets what cannot be folded point at everything since
  // `start`.
  template <class Make>
  NodePtr folded(size_t start, Make&& make) const {
    try {
      return make();
    } catch (const FoldingError& error) {
      fail(error.what(), tokens_[start], before(), "");
    }
  }

  NodePtr sum_of_products() {
    const size_t start = at_;
    std::vector<NodePtr> terms;
    bool minus = here().is("-");
    if (minus || here().is("+")) ++at_;
    for (;;) {
      const auto term = product_of_powers();
      terms.push_back(minus ? negative(term) : term);
      minus = here().is("-");
      if (!minus && !here().is("+")) break;
      ++at_;
    }
    return folded(start, [&] { return sum(terms); });
  }

  NodePtr product_of_powers() {
    const size_t start = at_;
    std::vector<NodePtr> factors{power_of_operands()};
    while (here().is("*") || here().is("/")) {
      const bool divide = here().is("/");
      const size_t from = ++at_;
      const auto factor = power_of_operands();
      if (divide && factor->is_number(0)) {
        fail("division by zero", tokens_[from - 1], before(), "");
      }
      factors.push_back(
          divide ? folded(from, [&] { return reciprocal(factor); }) : factor);
    }
    return folded(start, [&] { return product(factors); });
  }

  NodePtr power_of_operands() {
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
      return power(base, minus ? negative(exponent) : exponent);
    });
  }

  NodePtr operand() {
    const auto token = here();
    if (token.kind == Token::Kind::kNumber) {
      ++at_;
      return number(token.number);
    }
    if (token.is("(")) return in_brackets();
    if (token.kind != Token::Kind::kName) fail_without_operand();
    ++at_;
    return here().is("(") ? called(token) : named(token);
  }

  NodePtr in_brackets() {
    const auto open = here();
    enter(open);
    ++at_;
    if (here().is(")")) {
      fail("nothing stands in the brackets", open, here(), "");
    }
    auto inner = sum_of_products();
    close(open);
    --depth_;
    return inner;
  }

  void enter(const Token& token) {
    if (++depth_ > kDeepest) {
      fail("brackets or powers nest too deeply", token, token,
           fmt::format("{} of them may stand within each other", kDeepest));
    }
  }

  void close(const Token& open) {
    if (here().kind == Token::Kind::kEnd || here().is("=")) {
      fail("'(' is never closed", open, open, "add the ')' that belongs to it");
    }
    if (!here().is(")")) fail_behind_operand();
    ++at_;
  }

  NodePtr named(const Token& token) {
    const auto& name = token.text;
    const auto at = std::ranges::find(symbols_.variables, name);
    if (at != symbols_.variables.end()) {
      return variable(at - symbols_.variables.begin());
    }
    const auto sought = std::ranges::find(symbols_.unknowns, name);
    if (sought != symbols_.unknowns.end()) {
      return unknown(sought - symbols_.unknowns.begin());
    }
    if (const auto known = symbols_.constants.find(name);
        known != symbols_.constants.end()) {
      return folded(at_ - 1, [&] { return number(known->second); });
    }
    if (auto derivative = autodiff::derivative_named(name, symbols_)) {
      return field(std::move(*derivative));
    }
    if (name == "pi") return number(std::numbers::pi);
    if (name == "e") return number(std::numbers::e);
    if (name == "d") fail_as_quotient(text_, token, symbols_);
    if (name == "d" || find_function(name) != nullptr) {
      fail(fmt::format("{} has no argument", name), token, token,
           name == "d"
               ? "write d(u, x)"
               : fmt::format("write its argument in brackets: {}(…)", name));
    }
    fail_unknown_name(text_, token, symbols_);
  }

  NodePtr called(const Token& name) {
    const auto* known = find_function(name.text);
    if (known == nullptr && name.text != "d") {
      fail_unknown_function(text_, name, symbols_);
    }
    const auto open = here();
    const size_t start = at_ - 1;
    enter(open);
    ++at_;
    if (here().is(")")) {
      fail(fmt::format("{} has no argument", name.text), name, here(),
           name.text == "d" ? "write d(u, x)"
                            : fmt::format("write {}(x)", name.text));
    }
    auto result = sum_of_products();
    if (known == nullptr) {
      result = derived(start, result);
    } else {
      if (here().is(",")) {
        fail(fmt::format("{} takes one argument, got more", name.text), here(),
             here(), "");
      }
      close(open);
      result = folded(start, [&] { return call(known->function, result); });
    }
    --depth_;
    return result;
  }

  // The rest of d(f, x) or d(f, x, n), behind f.
  NodePtr derived(size_t start, NodePtr f) {
    const std::string usage = "write d(f, x), or d(f, x, 2) for the second";
    const auto open = tokens_[start + 1];
    if (here().is(")")) {
      fail("d takes a formula and a variable, got one argument", tokens_[start],
           here(), usage);
    }
    if (!here().is(",")) close(open);
    ++at_;
    const auto by = std::ranges::find(symbols_.variables, here().text);
    if (here().kind != Token::Kind::kName || by == symbols_.variables.end()) {
      if (!starts_operand(here())) fail_without_operand();
      fail(fmt::format("expected a variable ({}), got '{}'",
                       fmt::join(symbols_.variables, ", "), here().text),
           here(), here(),
           config::did_you_mean(here().text, symbols_.variables, usage));
    }
    ++at_;
    double times = 1;
    if (here().is(",")) {
      ++at_;
      if (!starts_operand(here())) fail_without_operand();
      times = here().number;
      if (here().kind != Token::Kind::kNumber || !is_whole(times) ||
          times < 1 || times > kHighest) {
        fail(fmt::format("expected a whole number from 1 to {}, got '{}'",
                         kHighest, here().text),
             here(), here(), "a mixed derivative is d(d(u, x), t), or u_xt");
      }
      ++at_;
    }
    if (here().is(",")) {
      fail("d takes at most three arguments, got more", here(), here(), usage);
    }
    close(open);
    for (; times > 0; --times) {
      f = folded(start, [&] {
        return differentiate(f, by - symbols_.variables.begin());
      });
      if (f->size > kLargest) {
        fail("this derivative has too many terms", tokens_[start], before(),
             "name a part of the formula as a field of its own");
      }
    }
    return f;
  }

  // At a token where an operand should start.
  [[noreturn]] void fail_without_operand() const {
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

  // At a token where an operator, a bracket or the end should be.
  [[noreturn]] void fail_behind_operand() const {
    const auto& token = here();
    if (starts_operand(token)) {
      const auto left = before().is(")") ? "(…)" : before().text;
      const auto right = token.is("(") ? "(…)" : token.text;
      fail(fmt::format("no operator stands between '{}' and '{}'",
                       before().text, token.text),
           before(), token, fmt::format("write {}*{}", left, right));
    }
    if (token.is(")")) {
      fail("')' closes nothing", token, token,
           "leave it out, or add the '(' that belongs to it");
    }
    if (token.is("=")) {
      fail("more than one '='", token, token, "an equation has one");
    }
    if (token.is(",")) {
      fail("',' outside of a function's brackets", token, token,
           "write numbers with a point: 0.5");
    }
    fail(fmt::format("unexpected '{}'", token.text), token, token, "");
  }

  const std::string& text_;
  const std::vector<Token> tokens_;
  const Symbols& symbols_;
  size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

NodePtr parse_tree(const std::string& text, size_t from, size_t to,
                   bool equation, const Symbols& symbols) {
  return Parser(text, from, to, symbols).line(equation);
}

}  // namespace propagator::pde
