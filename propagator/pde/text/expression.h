#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "propagator/autodiff/environment.h"
#include "propagator/pde/text/syntax_error.h"

namespace propagator::pde {

using autodiff::Derivative;
using autodiff::Environment;
using autodiff::Jet;
using autodiff::SecondOrderSum;
using autodiff::Symbols;

struct Node;

// A part of a text, in bytes.
struct Part {
  size_t from = 0, to = std::string::npos;
};

// The outward normal of an edge by the variables of space: its components are
// numbers, or else variables behind those of the symbols.
struct Normal {
  std::vector<int64_t> space;
  std::vector<double> components = {};
};

// A formula of variables, fields and their derivatives, as an immutable tree:
//   numbers 1 .5 1e-3, names, + - * / ^ (or **, from the right and before a
//   sign: -x^2 = -(x^2)), brackets, and one of sin cos tan exp log sqrt tanh
//   sinh cosh atan erf abs sign heaviside of an argument in brackets;
//   derivatives u_xx, u_xt, and d(f, x) or d(f, x, n) of any formula f, which
//   product and chain rule expand into those of fields;
//   max(a, b), min(a, b), and if(a < b, f, g), f where a < b and g elsewhere;
//   grad(f), a vector of derivatives by the variables of space, div(…) of a
//   vector, laplacian(f), dot(…, …), (f, g), a vector of these;
//   the complex unit i, re im conj abs, where there are complex fields.
// Sums and products are flat, with their numbers folded into one, so that
// what prints the same is the same tree.
class Expression {
 public:
  Expression();  // 0

  // SyntaxError points at what is wrong; `part` is what to read of `text`.
  static Expression parse(const std::string& text, const Symbols& symbols,
                          Part part = {});
  // a − b of an equation `a = b`; without a `=`, the whole is the residual.
  static Expression parse_equation(const std::string& text,
                                   const Symbols& symbols, Part part = {});
  // The same of complex ones: the real part and, unless it is 0, the imaginary
  // one. Of an equation neither is 0, if not both are.
  static std::vector<Expression> parse_parts(const std::string& text,
                                             const Symbols& symbols,
                                             Part part = {});
  static std::vector<Expression> parse_equations(const std::string& text,
                                                 const Symbols& symbols,
                                                 Part part = {});

  // That on an edge, where u_n is the derivative along the outward normal and
  // n_x, n_y … are its components, also of u_xn and so on.
  static std::vector<Expression> parse_on_edge(const std::string& text,
                                               const Symbols& symbols,
                                               const Normal& normal,
                                               Part part = {});

  // A number alone has the layout and shape of the first variable.
  Jet evaluate(const Environment& environment) const;
  // By one variable, with fields as functions of all of them. UsageError if a
  // number of it is not finite.
  Expression derivative(int64_t variable) const;

  // Those of a sum; itself if it is none.
  std::vector<Expression> terms() const;
  // With 0 in place of these derivatives of fields. UsageError if that has no
  // value, as u/u_t has none.
  Expression without(const std::set<Derivative>& derivatives) const;

  // With a formula of the variables in place of a field, and its derivatives in
  // place of the field's.
  Expression with_field(int64_t field, const Expression& formula) const;

  // With the environment's `second_order_sum` in place of second derivatives,
  // which are multiples of the sum alone; std::invalid_argument if not. `sum`
  // is not empty.
  Expression with_sum(const SecondOrderSum& sum) const;

  // Of fields, those without a derivative among them.
  std::set<Derivative> derivatives() const;
  // Those that appear themselves, not as what a field depends on.
  std::set<int64_t> variables() const;
  std::set<int64_t> unknowns() const;
  // Whether it has a function that is not smooth, as abs, max or if.
  bool has_corners() const;
  // Of what it takes a square root, or a power that is not whole.
  std::vector<Expression> under_roots() const;
  std::optional<double> constant() const;
  // The factors of the derivatives of order n, if it is a sum in which they
  // stand with constant factors and in no other way.
  std::optional<std::map<Derivative, double>> factors_of_order(int64_t n) const;

  // With as few brackets as it takes; parses to the same tree.
  std::string text() const;
  // The same tree; names do not count.
  bool operator==(const Expression& other) const;

 private:
  Expression(std::shared_ptr<const Node> root,
             std::shared_ptr<const Symbols> symbols);
  static std::vector<Expression> read(const std::string& text,
                                      const Symbols& symbols, Part part,
                                      bool equation);

  std::shared_ptr<const Node> root_;
  std::shared_ptr<const Symbols> symbols_;
};

// Which variable is time: the declared one, or that named t, or else time; -1
// if there is none.
int64_t time_of(const Symbols& symbols);

}  // namespace propagator::pde
