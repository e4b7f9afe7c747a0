#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "propagator/pde/text/expression_operators.h"
#include "propagator/pde/text/expression_value.h"
#include "propagator/pde/text/tokens.h"

namespace propagator::pde {

// Recursive descent, one function for each level of the grammar:
//   line       = sum ["=" sum]
//   sum        = [sign] product {("+" | "-") product}
//   product    = power {("*" | "/") power}
//   power      = operand ["^" [sign] power]
//   operand    = number | name | name "(" sum {"," sum} ")" | "(" sums ")"
//              | "if" "(" comparison "," sum "," sum ")"
//   sums       = sum {"," sum}, a vector if there are several
//   comparison = sum ("<" | "<=" | ">" | ">=") sum
class Parser {
 public:
  Parser(const std::string& text, size_t from, size_t to,
         const Symbols& symbols)
      : text_(text), tokens_(tokenize(text, from, to)), symbols_(symbols) {}

  // A number, real or complex.
  Scalar line(bool equation);
  // SyntaxError about all that was read.
  [[noreturn]] void fail_as_a_whole(const std::string& sentence,
                                    const std::string& hint) const;

 private:
  const Token& here() const { return tokens_[at_]; }
  const Token& before() const { return tokens_[at_ - 1]; }
  bool at_start() const { return at_ == 0; }

  [[noreturn]] void fail(const std::string& sentence, const Token& first,
                         const Token& last, const std::string& hint) const;
  // Runs `make` and lets what cannot be folded point at everything since
  // `start`.
  template <class Make>
  auto folded(size_t start, Make&& make) const {
    try {
      auto made = make();
      expect_short(start, made);
      return made;
    } catch (const FoldingError& error) {
      fail(error.what(), tokens_[start], before(), error.hint());
    }
  }
  // Products of complex numbers double with every factor.
  void expect_short(size_t start, const Value& made) const;

  Value sum_of_products();
  Value product_of_powers();
  Value power_of_operands();
  Value operand();
  Value in_brackets();
  void enter(const Token& token);
  void close(const Token& open);

  Value named(const Token& token);
  // The field or derivative of one that it names, or else nothing.
  std::optional<Value> field_named(const std::string& name) const;
  Value coefficient(const std::string& name, const std::string& formula);
  // Whether the text has given the name a meaning of its own.
  bool is_declared(const std::string& name) const;
  Value called(const Token& name);
  Value chosen(size_t start);
  Value operated(size_t start, const Operator& known);
  // The rest of d(f, x) or d(f, x, n), behind f.
  Value derived(size_t start, Value f);

  // At a token where an operand should start.
  [[noreturn]] void fail_without_operand() const;
  // At a token where an operator, a bracket or the end should be.
  [[noreturn]] void fail_behind_operand() const;

  const std::string& text_;
  const std::vector<Token> tokens_;
  const Symbols& symbols_;
  size_t at_ = 0;
  int depth_ = 0;
  std::map<std::string, NodePtr> coefficients_;  // as they were read
  size_t of_coefficients_ = 0;                   // nodes
};

bool starts_operand(const Token& token);
bool is_comparison(const Token& token);

}  // namespace propagator::pde
