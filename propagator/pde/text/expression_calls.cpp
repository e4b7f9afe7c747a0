#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numbers>

#include "propagator/core/config.h"
#include "propagator/pde/text/complex_field.h"
#include "propagator/pde/text/expression_parser.h"
#include "propagator/pde/text/syntax_error.h"
#include "propagator/pde/text/unknown_name.h"

// What names mean, alone and in front of brackets.

namespace propagator::pde {
namespace {

constexpr size_t kLargest = 20'000;  // nodes of an expanded derivative
constexpr double kHighest = 8;       // n of d(f, x, n)

bool is_among(const std::vector<std::string>& names, const std::string& name) {
  return std::ranges::find(names, name) != names.end();
}

}  // namespace

std::optional<Value> Parser::field_named(const std::string& name) const {
  const auto parts = parts_named(name, symbols_);
  if (parts.empty()) return std::nullopt;
  if (parts.size() == 1) return Value(field(parts[0]));
  return Value(Scalar{field(parts[0]), field(parts[1])});
}

bool Parser::is_declared(const std::string& name) const {
  return is_among(symbols_.variables, name) ||
         is_among(symbols_.unknowns, name) ||
         symbols_.constants.contains(name) ||
         symbols_.coefficients.contains(name) ||
         symbols_.tables.contains(name) || field_named(name);
}

Value Parser::named(const Token& token) {
  const auto& name = token.text;
  const auto at = std::ranges::find(symbols_.variables, name);
  if (at != symbols_.variables.end()) {
    return {variable(at - symbols_.variables.begin())};
  }
  const auto sought = std::ranges::find(symbols_.unknowns, name);
  if (sought != symbols_.unknowns.end()) {
    return {unknown(sought - symbols_.unknowns.begin())};
  }
  if (const auto known = symbols_.constants.find(name);
      known != symbols_.constants.end()) {
    return folded(at_ - 1, [&] { return Value(number(known->second)); });
  }
  if (const auto known = symbols_.coefficients.find(name);
      known != symbols_.coefficients.end()) {
    return coefficient(name, known->second);
  }
  if (const auto known = symbols_.tables.find(name);
      known != symbols_.tables.end()) {
    return {table(known->second,
                  std::vector<int64_t>(known->second->variables().size(), 0))};
  }
  if (auto own = field_named(name)) return *own;
  if (name == "pi") return {number(std::numbers::pi)};
  if (name == "e") return {number(std::numbers::e)};
  if (name == "i" && !symbols_.complex_fields.empty()) {
    return Value(Scalar{number(0), number(1)});
  }
  if (name == "d") fail_as_quotient(text_, token, symbols_);
  if (name == "d" || find_function(name) != nullptr ||
      is_among(operator_names(), name)) {
    fail(fmt::format("{} has no argument", name), token, token,
         name == "d"
             ? "write d(u, x)"
             : fmt::format("write its argument in brackets: {}(…)", name));
  }
  fail_unknown_name(text_, token, symbols_);
}

Value Parser::coefficient(const std::string& name, const std::string& formula) {
  auto& read = coefficients_[name];
  if (!read) read = parse_tree(formula, 0, formula.size(), false, symbols_);
  of_coefficients_ += read->size;
  if (of_coefficients_ > kLargest) {
    fail("the coefficients of this line have too many terms", before(),
         before(), "make one coefficient of several, or a field");
  }
  return {read};
}

Value Parser::called(const Token& name) {
  const size_t start = at_ - 1;
  const auto* known = find_function(name.text);
  const auto* other =
      is_declared(name.text) ? nullptr : find_operator(name.text);
  const bool is_choice = name.text == "if" && !is_declared(name.text);
  if (known == nullptr && other == nullptr && !is_choice && name.text != "d") {
    fail_unknown_function(text_, name, symbols_);
  }
  const auto open = here();
  enter(open);
  ++at_;
  if (here().is(")")) {
    fail(fmt::format("{} has no argument", name.text), name, here(),
         name.text == "d" ? "write d(u, x)"
         : is_choice      ? "write if(x < 0.5, a, b)"
         : other          ? other->usage
                          : fmt::format("write {}(x)", name.text));
  }
  Value result;
  if (is_choice) {
    result = chosen(start);
  } else if (other != nullptr) {
    result = operated(start, *other);
  } else {
    result = sum_of_products();
    if (known == nullptr) {
      result = derived(start, result);
    } else {
      if (here().is(",")) {
        fail(fmt::format("{} takes one argument, got more", name.text), here(),
             here(), "");
      }
      close(open);
      result = folded(start, [&] { return applied(known->function, result); });
    }
  }
  --depth_;
  return result;
}

Value Parser::chosen(size_t start) {
  const std::string usage =
      "write if(x < 0.5, a, b), which is a where that holds and b elsewhere";
  const auto open = tokens_[start + 1];
  const auto left = sum_of_products();
  const auto sign = here();
  if (!is_comparison(sign)) {
    if (!here().is(",") && !here().is(")")) close(open);
    fail("if begins with a comparison", tokens_[start + 2], before(), usage);
  }
  ++at_;
  const auto right = sum_of_products();
  std::vector<Value> sides;
  while (sides.size() < 2) {
    if (!here().is(",")) {
      if (!here().is(")")) close(open);
      fail("if takes a comparison and two formulas, got fewer", tokens_[start],
           here(), usage);
    }
    ++at_;
    sides.push_back(sum_of_products());
  }
  if (here().is(",")) {
    fail("if takes a comparison and two formulas, got more", here(), here(),
         usage);
  }
  close(open);
  return folded(start, [&] {
    auto a = left.real("a comparison is of");
    auto b = right.real("a comparison is of");
    const bool strict = sign.text.size() == 1;
    if (sign.text.front() == '>') std::swap(a, b);
    const auto& then = sides[0].scalar("if takes");
    const auto& otherwise = sides[1].scalar("if takes");
    const auto side = [&](NodePtr x, NodePtr y) {
      return choice(a, strict, b, x ? x : number(0), y ? y : number(0));
    };
    return Value(complex(side(then.real, otherwise.real),
                         then.imaginary || otherwise.imaginary
                             ? side(then.imaginary, otherwise.imaginary)
                             : nullptr));
  });
}

Value Parser::operated(size_t start, const Operator& known) {
  const auto open = tokens_[start + 1];
  std::vector<Value> arguments{sum_of_products()};
  while (here().is(",")) {
    if (arguments.size() == known.most) {
      fail(fmt::format("{} takes {} argument{}, got more", known.name,
                       known.most, known.most == 1 ? "" : "s"),
           here(), here(), known.usage);
    }
    ++at_;
    arguments.push_back(sum_of_products());
  }
  if (here().is(")") && arguments.size() < known.fewest) {
    fail(fmt::format("{} takes {} arguments, got {}", known.name, known.fewest,
                     arguments.size()),
         tokens_[start], here(), known.usage);
  }
  close(open);
  return folded(start, [&] {
    auto result = known.of(arguments, symbols_);
    if (result.size() > kLargest) {
      throw FoldingError("this has too many terms",
                         "name a part of the formula as a field of its own");
    }
    return result;
  });
}

Value Parser::derived(size_t start, Value f) {
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
    if (here().kind != Token::Kind::kNumber || !is_whole(times) || times < 1 ||
        times > kHighest) {
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
    if (f.size() > kLargest) {
      fail("this derivative has too many terms", tokens_[start], before(),
           "name a part of the formula as a field of its own");
    }
  }
  return f;
}

}  // namespace propagator::pde
