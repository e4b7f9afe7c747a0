#pragma once

#include <vector>

#include "propagator/pde/text/expression_node.h"

namespace propagator::pde {

// A number, real or complex.
struct Scalar {
  NodePtr real;
  NodePtr imaginary = {};  // none: it is real
  NodePtr square = {};     // of an absolute value, so that |z|² has no root
};

// What a part of a text stands for while it is read: a number, or a vector with
// a component for each variable of space. Trees are left with real numbers.
struct Value {
  std::vector<Scalar> parts;
  bool is_vector = false;

  Value() = default;
  Value(NodePtr real) : parts{{std::move(real)}} {}  // NOLINT: a plain number
  explicit Value(Scalar number) : parts{std::move(number)} {}
  explicit Value(std::vector<Scalar> components)
      : parts(std::move(components)), is_vector(true) {}

  // FoldingError unless it is a number; `what` takes it.
  const Scalar& scalar(const char* what) const;
  // FoldingError unless it is a real number.
  const NodePtr& real(const char* what) const;
  bool is_real() const;
  // Nodes of all its trees.
  size_t size() const;
};

// a + ib, which is real where b is 0.
Scalar complex(NodePtr real, NodePtr imaginary);
Scalar conjugate(const Scalar& z);
// |z|² of all parts: re² + im².
NodePtr square_of(const Value& value);

// What to write in place of a vector.
extern const char* const kForVectors;

// The operations of a text. FoldingError where vectors or complex numbers do
// not allow them.
Value total(const std::vector<Value>& terms);  // all numbers, or all vectors
Value times(const std::vector<Value>& factors);
Value opposite(const Value& value);
Value inverse(const Value& value);
Value raised(const Value& base, const Value& exponent);
Value applied(Function function, const Value& argument);
Value differentiate(const Value& value, int64_t by);

}  // namespace propagator::pde
