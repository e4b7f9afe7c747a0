#include <numbers>

#include "propagator/pde/text/expression_node.h"

namespace propagator::pde {
namespace {

// f'(x) of the function alone.
NodePtr slope(Function function, const NodePtr& x) {
  const auto squared = [&x](Function f) {
    return power(call(f, x), number(2));
  };
  switch (function) {
    case Function::kSin:
      return call(Function::kCos, x);
    case Function::kCos:
      return negative(call(Function::kSin, x));
    case Function::kTan:
      return sum({number(1), squared(Function::kTan)});
    case Function::kExp:
      return call(Function::kExp, x);
    case Function::kLog:
      return reciprocal(x);
    case Function::kSqrt:
      return product({number(0.5), reciprocal(call(Function::kSqrt, x))});
    case Function::kTanh:
      return sum({number(1), negative(squared(Function::kTanh))});
    case Function::kSinh:
      return call(Function::kCosh, x);
    case Function::kCosh:
      return call(Function::kSinh, x);
    case Function::kAbs:
      return call(Function::kSign, x);
    case Function::kSign:
    case Function::kHeaviside:
      return number(0);
    case Function::kAtan:
      return reciprocal(sum({number(1), power(x, number(2))}));
    case Function::kErf:
      return product({number(2 * std::numbers::inv_sqrtpi),
                      call(Function::kExp, negative(power(x, number(2))))});
  }
  return number(0);
}

NodePtr of_product(const Node& node, int64_t by) {
  std::vector<NodePtr> terms;
  for (size_t i = 0; i < node.children.size(); ++i) {
    auto factors = node.children;
    factors[i] = differentiate(factors[i], by);
    terms.push_back(product(factors));
  }
  return sum(terms);
}

// (b^y)' = y b^(y-1) b' + b^y log(b) y'
NodePtr of_power(const NodePtr& node, int64_t by) {
  const auto& base = node->children[0];
  const auto& exponent = node->children[1];
  const auto base_slope = differentiate(base, by);
  const auto exponent_slope = differentiate(exponent, by);
  std::vector<NodePtr> terms;
  if (!base_slope->is_number(0)) {
    terms.push_back(product(
        {exponent, power(base, sum({exponent, number(-1)})), base_slope}));
  }
  if (!exponent_slope->is_number(0)) {
    terms.push_back(
        product({node, call(Function::kLog, base), exponent_slope}));
  }
  return sum(terms);
}

// That of the side which it is; of the first where both are equal.
NodePtr of_choice(const Node& node, int64_t by) {
  const auto slope_of = [&](size_t child) {
    return differentiate(node.children[child], by);
  };
  const auto& a = node.children[0];
  const auto& b = node.children[1];
  switch (node.kind) {
    case Node::Kind::kMaximum:
      return choice(b, /*strict=*/false, a, slope_of(0), slope_of(1));
    case Node::Kind::kMinimum:
      return choice(a, /*strict=*/false, b, slope_of(0), slope_of(1));
    default:
      return choice(a, node.strict, b, slope_of(2), slope_of(3));
  }
}

}  // namespace

NodePtr differentiate(const NodePtr& node, int64_t by) {
  switch (node->kind) {
    case Node::Kind::kNumber:
    case Node::Kind::kUnknown:
      return number(0);
    case Node::Kind::kVariable:
      return number(node->variable == by ? 1 : 0);
    case Node::Kind::kField: {
      auto raised = node->derivative;
      ++raised.orders.at(static_cast<size_t>(by));
      return field(std::move(raised));
    }
    case Node::Kind::kTable: {
      const auto& own = node->table->variables();
      const auto at = std::ranges::find(own, by);
      if (at == own.end()) return number(0);
      auto orders = node->derivative.orders;
      ++orders[static_cast<size_t>(at - own.begin())];
      return table(node->table, std::move(orders));
    }
    case Node::Kind::kSecondOrderSum:
      throw std::invalid_argument(
          "[Expression] expected a formula without a sum of second "
          "derivatives, which has no derivative here");
    case Node::Kind::kSum: {
      std::vector<NodePtr> terms;
      for (const auto& term : node->children) {
        terms.push_back(differentiate(term, by));
      }
      return sum(terms);
    }
    case Node::Kind::kProduct:
      return of_product(*node, by);
    case Node::Kind::kPower:
      return of_power(node, by);
    case Node::Kind::kFunction: {
      const auto inner = differentiate(node->children[0], by);
      if (inner->is_number(0)) return inner;
      return product({slope(node->function, node->children[0]), inner});
    }
    case Node::Kind::kMaximum:
    case Node::Kind::kMinimum:
    case Node::Kind::kChoice:
      return of_choice(*node, by);
  }
  return number(0);
}

}  // namespace propagator::pde
