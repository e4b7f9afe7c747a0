#include "propagator/pde/text/expression_value.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace propagator::pde {
namespace {

constexpr double kHighestPower = 8;  // of a complex number

NodePtr imaginary_of(const Scalar& z) {
  return z.imaginary ? z.imaginary : number(0);
}

Scalar sum_of(const std::vector<Scalar>& terms) {
  std::vector<NodePtr> real, imaginary;
  for (const auto& term : terms) {
    real.push_back(term.real);
    if (term.imaginary) imaginary.push_back(term.imaginary);
  }
  return complex(sum(real), imaginary.empty() ? nullptr : sum(imaginary));
}

bool are_conjugate(const Scalar& a, const Scalar& b) {
  return same(*a.real, *b.real) && same(*negative(a.imaginary), *b.imaginary);
}

// x², which is (-x)² too.
NodePtr square_of(const NodePtr& x) {
  const bool is_negative = x->kind == Node::Kind::kProduct &&
                           x->children[0]->is_number() &&
                           x->children[0]->number < 0;
  return power(is_negative ? negative(x) : x, number(2));
}

NodePtr square_of(const Scalar& z) {
  if (!z.imaginary) return square_of(z.real);
  return sum({square_of(z.real), square_of(z.imaginary)});
}

Scalar product_of_two(const Scalar& a, const Scalar& b) {
  if (are_conjugate(a, b)) return {square_of(a)};
  return complex(
      sum({product({a.real, b.real}),
           negative(product({a.imaginary, b.imaginary}))}),
      sum({product({a.real, b.imaginary}), product({a.imaginary, b.real})}));
}

// Conjugates first, which leave no imaginary part.
void join_conjugates(std::vector<Scalar>& numbers, std::vector<NodePtr>& real) {
  for (size_t i = 0; i < numbers.size(); ++i) {
    const auto other = std::find_if(
        numbers.begin() + static_cast<std::ptrdiff_t>(i) + 1, numbers.end(),
        [&](const Scalar& z) { return are_conjugate(numbers[i], z); });
    if (other == numbers.end()) continue;
    real.push_back(square_of(*other));
    numbers.erase(other);
    numbers.erase(numbers.begin() + static_cast<std::ptrdiff_t>(i--));
  }
}

Scalar product_of(const std::vector<Scalar>& factors) {
  std::vector<NodePtr> real;
  std::vector<Scalar> numbers;
  for (const auto& factor : factors) {
    if (factor.imaginary) {
      numbers.push_back(factor);
    } else {
      real.push_back(factor.real);
    }
  }
  join_conjugates(numbers, real);
  const auto factor = product(real);
  if (numbers.empty()) return {factor};
  auto all = numbers.front();
  for (size_t n = 1; n < numbers.size(); ++n) {
    all = all.imaginary ? product_of_two(all, numbers[n])
                        : complex(product({all.real, numbers[n].real}),
                                  product({all.real, numbers[n].imaginary}));
  }
  if (!all.imaginary) return {product({factor, all.real})};
  return complex(product({factor, all.real}), product({factor, all.imaginary}));
}

// e^a (cos b + i sin b).
Scalar exponential(const Scalar& z) {
  const auto size = call(Function::kExp, z.real);
  return complex(product({size, call(Function::kCos, z.imaginary)}),
                 product({size, call(Function::kSin, z.imaginary)}));
}

// f of a complex number by the addition theorems.
Scalar applied_to(Function function, const Scalar& z) {
  using enum Function;
  const auto of = [](Function f, const NodePtr& x, Function g,
                     const NodePtr& y) {
    return product({call(f, x), call(g, y)});
  };
  const auto& a = z.real;
  const auto& b = z.imaginary;
  switch (function) {
    case kExp:
      return exponential(z);
    case kSin:
      return complex(of(kSin, a, kCosh, b), of(kCos, a, kSinh, b));
    case kCos:
      return complex(of(kCos, a, kCosh, b), negative(of(kSin, a, kSinh, b)));
    case kSinh:
      return complex(of(kSinh, a, kCos, b), of(kCosh, a, kSin, b));
    case kCosh:
      return complex(of(kCosh, a, kCos, b), of(kSinh, a, kSin, b));
    default:
      throw FoldingError(
          fmt::format("{} takes a real number, got a complex one",
                      entry(function).name),
          "of complex numbers there are exp, sin, cos, sinh, cosh, abs, re, "
          "im and conj");
  }
}

Scalar whole_power(const Scalar& z, const NodePtr& exponent) {
  const double n = exponent->is_number() ? exponent->number : 0.5;
  if (!is_whole(n) || std::abs(n) > kHighestPower) {
    throw FoldingError(
        fmt::format("a complex number to a power that is no whole number from "
                    "{} to {}",
                    -kHighestPower, kHighestPower),
        "write abs(…) for its absolute value");
  }
  const auto base = n < 0 ? inverse(Value(z)).parts[0] : z;
  Scalar all{number(1)};
  for (double k = 0; k < std::abs(n); ++k) all = product_of({all, base});
  return all;
}

}  // namespace

const char* const kForVectors =
    "dot(a, b), div(a) and abs(a) of vectors are numbers, and 0.5 has a point";

const Scalar& Value::scalar(const char* what) const {
  if (!is_vector) return parts[0];
  throw FoldingError(fmt::format("{} a number, got a vector", what),
                     kForVectors);
}

const NodePtr& Value::real(const char* what) const {
  const auto& z = scalar(what);
  if (!z.imaginary) return z.real;
  throw FoldingError(fmt::format("{} a real number, got a complex one", what),
                     "write re(…), im(…) or abs(…)");
}

bool Value::is_real() const {
  return std::ranges::none_of(
      parts, [](const Scalar& z) { return z.imaginary != nullptr; });
}

size_t Value::size() const {
  size_t all = 0;
  for (const auto& z : parts) {
    all += z.real->size + (z.imaginary ? z.imaginary->size : 0);
  }
  return all;
}

Scalar complex(NodePtr real, NodePtr imaginary) {
  if (imaginary && imaginary->is_number(0)) imaginary = nullptr;
  return {std::move(real), std::move(imaginary)};
}

Scalar conjugate(const Scalar& z) {
  return {z.real, z.imaginary ? negative(z.imaginary) : nullptr};
}

NodePtr square_of(const Value& value) {
  std::vector<NodePtr> squares;
  for (const auto& z : value.parts) squares.push_back(square_of(z));
  return sum(squares);
}

Value total(const std::vector<Value>& terms) {
  if (terms.size() == 1) return terms[0];
  const auto& first = terms[0];
  std::vector<Scalar> sums;
  for (size_t c = 0; c < first.parts.size(); ++c) {
    std::vector<Scalar> column;
    for (const auto& term : terms) {
      if (term.parts.size() != first.parts.size()) {
        throw FoldingError(
            fmt::format("a sum of vectors with {} and {} "
                        "components",
                        first.parts.size(), term.parts.size()));
      }
      column.push_back(term.parts[c]);
    }
    sums.push_back(sum_of(column));
  }
  return first.is_vector ? Value(std::move(sums)) : Value(std::move(sums[0]));
}

Value times(const std::vector<Value>& factors) {
  if (factors.size() == 1) return factors[0];
  const auto is_vector = [](const Value& factor) { return factor.is_vector; };
  const auto vector = std::ranges::find_if(factors, is_vector);
  if (std::ranges::count_if(factors, is_vector) > 1) {
    throw FoldingError("a product of two vectors", kForVectors);
  }
  const size_t count = vector == factors.end() ? 1 : vector->parts.size();
  std::vector<Scalar> products;
  for (size_t c = 0; c < count; ++c) {
    std::vector<Scalar> numbers;
    for (const auto& factor : factors) {
      numbers.push_back(factor.parts[factor.is_vector ? c : 0]);
    }
    products.push_back(product_of(numbers));
  }
  return vector == factors.end() ? Value(std::move(products[0]))
                                 : Value(std::move(products));
}

Value opposite(const Value& value) { return times({number(-1), value}); }

Value inverse(const Value& value) {
  const auto& z = value.scalar("a denominator is");
  if (!z.imaginary) return {reciprocal(z.real)};
  const auto factor = reciprocal(square_of(z));
  return Value(complex(product({z.real, factor}),
                       negative(product({imaginary_of(z), factor}))));
}

Value raised(const Value& base, const Value& exponent) {
  const auto& x = base.scalar("the base of a power is");
  const auto& y = exponent.scalar("an exponent is");
  if (x.square && y.real->is_number() && !y.imaginary) {
    return {power(x.square, number(y.real->number / 2))};
  }
  if (x.imaginary)
    return Value(whole_power(x, exponent.real("an exponent is")));
  if (!y.imaginary) return {power(x.real, y.real)};
  if (!x.real->is_number() || x.real->number <= 0) {
    throw FoldingError(
        "a complex exponent of a base that is no positive number",
        "write exp(…)");
  }
  const auto factor = number(std::log(x.real->number));
  return applied(Function::kExp, Value(product_of({y, {factor}})));
}

Value applied(Function function, const Value& argument) {
  if (function == Function::kAbs &&
      (argument.is_vector || argument.parts[0].imaginary)) {
    const auto square = square_of(argument);
    return Value(Scalar{call(Function::kSqrt, square), nullptr, square});
  }
  const auto name = fmt::format("{} takes", entry(function).name);
  const auto& z = argument.scalar(name.c_str());
  if (!z.imaginary) return {call(function, z.real)};
  return Value(applied_to(function, z));
}

Value differentiate(const Value& value, int64_t by) {
  auto slopes = value;
  for (auto& z : slopes.parts) {
    z = complex(differentiate(z.real, by),
                z.imaginary ? differentiate(z.imaginary, by) : nullptr);
  }
  return slopes;
}

}  // namespace propagator::pde
