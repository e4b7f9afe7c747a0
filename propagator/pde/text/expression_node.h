#pragma once

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "propagator/autodiff/derivative.h"
#include "propagator/autodiff/jet.h"
#include "propagator/autodiff/table.h"
#include "propagator/core/error.h"

namespace propagator::pde {

using autodiff::Derivative;
using autodiff::Jet;
using autodiff::Symbols;
using autodiff::Table;

struct Node;
using NodePtr = std::shared_ptr<const Node>;

enum class Function {
  kSin,
  kCos,
  kTan,
  kExp,
  kLog,
  kSqrt,
  kTanh,
  kSinh,
  kCosh,
  kAbs,
  kSign,
  kHeaviside,
  kAtan,
  kErf
};

struct FunctionEntry {
  Function function;
  const char* name;
  double (*value)(double);
  Jet (*jet)(const Jet&);
};
const std::array<FunctionEntry, 14>& functions();
const FunctionEntry& entry(Function function);
const FunctionEntry* find_function(std::string_view name);

// A node of an expression. Nodes are made by the functions below alone, which
// keep these forms: a sum has no sum among its terms and at most one number, a
// product has no product among its factors and a number only in front; a − b
// is a + (−1)·b, and a / b is a·b^(−1).
struct Node {
  enum class Kind {
    kNumber,
    kVariable,
    kUnknown,
    kField,
    kTable,
    kSecondOrderSum,
    kSum,
    kProduct,
    kPower,
    kFunction,
    kMaximum,
    kMinimum,
    kChoice
  };

  Kind kind = Kind::kNumber;
  double number = 0;
  int64_t variable = 0;  // or which unknown
  // Of a field; of a sum of its second ones the field alone; of a table the
  // orders alone, by its own variables.
  Derivative derivative;
  std::shared_ptr<const Table> table = {};
  Function function = Function::kSin;
  bool strict = false;  // of a choice: < in place of <=
  // Terms, factors, (base, exponent), argument, the two of a maximum; of a
  // choice what is compared, and what it is where that holds and elsewhere.
  std::vector<NodePtr> children;
  size_t size = 1;  // nodes of the whole tree

  bool is_number() const { return kind == Kind::kNumber; }
  bool is_number(double value) const { return is_number() && number == value; }
};

// Folding met something that has no value, such as 1/0 or log(-1).
struct FoldingError : UsageError {
  using UsageError::UsageError;
};

NodePtr number(double value);
NodePtr variable(int64_t index);
NodePtr unknown(int64_t index);
NodePtr field(Derivative derivative);
// A table's derivative, by each of its variables so often.
NodePtr table(std::shared_ptr<const Table> values, std::vector<int64_t> orders);
// The sum of a field's second derivatives that an environment has.
NodePtr second_order_sum(int64_t field);
NodePtr sum(const std::vector<NodePtr>& terms);
NodePtr product(const std::vector<NodePtr>& factors);
NodePtr power(const NodePtr& base, const NodePtr& exponent);
NodePtr call(Function function, const NodePtr& argument);
NodePtr maximum(const NodePtr& a, const NodePtr& b);
NodePtr minimum(const NodePtr& a, const NodePtr& b);
// `then` where left <= right, or left < right if `strict`, else `otherwise`.
NodePtr choice(const NodePtr& left, bool strict, const NodePtr& right,
               const NodePtr& then, const NodePtr& otherwise);

inline NodePtr negative(const NodePtr& x) { return product({number(-1), x}); }
inline NodePtr reciprocal(const NodePtr& x) { return power(x, number(-1)); }

bool is_whole(double value);
// With other nodes in place of some; no node: the same one, with its children
// replaced.
using Replacement = std::function<NodePtr(const Node&)>;
NodePtr replaced(const NodePtr& node, const Replacement& replacement);
// ∂/∂x of a tree. std::invalid_argument of one with a sum of second
// derivatives, which stands in formulas to be evaluated alone.
NodePtr differentiate(const NodePtr& node, int64_t by);
bool same(const Node& a, const Node& b);
std::string print(const Node& node, const Symbols& symbols);

// A line's tree; `equation` says whether one `=` may stand in it. SyntaxError
// of one that is complex.
NodePtr parse_tree(const std::string& text, size_t from, size_t to,
                   bool equation, const Symbols& symbols);
// Its real part and, if it is complex, its imaginary one.
std::vector<NodePtr> parse_parts(const std::string& text, size_t from,
                                 size_t to, bool equation,
                                 const Symbols& symbols);

}  // namespace propagator::pde
