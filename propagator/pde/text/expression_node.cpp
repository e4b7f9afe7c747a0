#include "propagator/pde/text/expression_node.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace propagator::pde {
namespace {

double finite(double value, const std::string& what) {
  if (!std::isfinite(value)) {
    throw FoldingError(what + " has no finite value");
  }
  return value == 0 ? 0 : value;  // not -0, which would print as itself
}

NodePtr with_children(Node::Kind kind, std::vector<NodePtr> children) {
  Node node;
  node.kind = kind;
  for (const auto& child : children) node.size += child->size;
  node.children = std::move(children);
  return std::make_shared<const Node>(std::move(node));
}

}  // namespace

bool is_whole(double value) { return value == std::floor(value); }

NodePtr number(double value) {
  Node node;
  node.number = finite(value, "this");
  return std::make_shared<const Node>(std::move(node));
}

NodePtr variable(int64_t index) {
  Node node;
  node.kind = Node::Kind::kVariable;
  node.variable = index;
  return std::make_shared<const Node>(std::move(node));
}

NodePtr unknown(int64_t index) {
  Node node;
  node.kind = Node::Kind::kUnknown;
  node.variable = index;
  return std::make_shared<const Node>(std::move(node));
}

NodePtr field(Derivative derivative) {
  Node node;
  node.kind = Node::Kind::kField;
  node.derivative = std::move(derivative);
  return std::make_shared<const Node>(std::move(node));
}

NodePtr table(std::shared_ptr<const Table> values,
              std::vector<int64_t> orders) {
  constexpr int64_t kHighestOrder = 3;  // of a cubic polynomial
  if (std::ranges::max(orders) > kHighestOrder) return number(0);
  Node node;
  node.kind = Node::Kind::kTable;
  node.table = std::move(values);
  node.derivative.orders = std::move(orders);
  return std::make_shared<const Node>(std::move(node));
}

NodePtr second_order_sum(int64_t field) {
  Node node;
  node.kind = Node::Kind::kSecondOrderSum;
  node.derivative.field = field;
  return std::make_shared<const Node>(std::move(node));
}

NodePtr sum(const std::vector<NodePtr>& terms) {
  double constant = 0;
  std::vector<NodePtr> kept;
  std::ptrdiff_t place = -1;  // of the number: where the first one stood
  const auto add = [&](const NodePtr& term) {
    if (!term->is_number()) {
      kept.push_back(term);
      return;
    }
    constant += term->number;
    if (place < 0) place = std::ssize(kept);
  };
  for (const auto& term : terms) {
    if (term->kind != Node::Kind::kSum) {
      add(term);
      continue;
    }
    for (const auto& inner : term->children) add(inner);
  }
  if (kept.empty()) return number(constant);
  if (constant != 0) kept.insert(kept.begin() + place, number(constant));
  return kept.size() == 1 ? kept[0]
                          : with_children(Node::Kind::kSum, std::move(kept));
}

NodePtr product(const std::vector<NodePtr>& factors) {
  double constant = 1;
  std::vector<NodePtr> kept;
  const auto multiply = [&](const NodePtr& factor) {
    if (factor->is_number()) {
      constant *= factor->number;
    } else {
      kept.push_back(factor);
    }
  };
  for (const auto& factor : factors) {
    if (factor->kind != Node::Kind::kProduct) {
      multiply(factor);
      continue;
    }
    for (const auto& inner : factor->children) multiply(inner);
  }
  if (constant == 0 || kept.empty()) return number(constant);
  if (constant != 1) kept.insert(kept.begin(), number(constant));
  return kept.size() == 1
             ? kept[0]
             : with_children(Node::Kind::kProduct, std::move(kept));
}

NodePtr power(const NodePtr& base, const NodePtr& exponent) {
  if (base->is_number() && exponent->is_number()) {
    return number(finite(
        std::pow(base->number, exponent->number),
        fmt::format("{} to the power {}", base->number, exponent->number)));
  }
  if (exponent->is_number(0) || base->is_number(1)) return number(1);
  if (exponent->is_number(1)) return base;
  if (base->is_number() && base->number <= 0) {
    throw FoldingError(fmt::format(
        "{} to a power that is not constant has no value", base->number));
  }
  // (x^m)^n = x^(mn) for whole powers, and for any m where n is -1.
  if (base->kind == Node::Kind::kPower && exponent->is_number() &&
      base->children[1]->is_number()) {
    const double inner = base->children[1]->number, outer = exponent->number;
    if (outer == -1 || (is_whole(inner) && is_whole(outer))) {
      return power(base->children[0], number(inner * outer));
    }
  }
  return with_children(Node::Kind::kPower, {base, exponent});
}

NodePtr call(Function function, const NodePtr& argument) {
  const auto& known = entry(function);
  if (argument->is_number()) {
    return number(finite(known.value(argument->number),
                         fmt::format("{}({})", known.name, argument->number)));
  }
  Node node;
  node.kind = Node::Kind::kFunction;
  node.function = function;
  node.children = {argument};
  node.size = argument->size + 1;
  return std::make_shared<const Node>(std::move(node));
}

NodePtr maximum(const NodePtr& a, const NodePtr& b) {
  if (a->is_number() && b->is_number()) {
    return number(std::max(a->number, b->number));
  }
  return with_children(Node::Kind::kMaximum, {a, b});
}

NodePtr minimum(const NodePtr& a, const NodePtr& b) {
  if (a->is_number() && b->is_number()) {
    return number(std::min(a->number, b->number));
  }
  return with_children(Node::Kind::kMinimum, {a, b});
}

NodePtr choice(const NodePtr& left, bool strict, const NodePtr& right,
               const NodePtr& then, const NodePtr& otherwise) {
  if (left->is_number() && right->is_number()) {
    const bool holds =
        strict ? left->number < right->number : left->number <= right->number;
    return holds ? then : otherwise;
  }
  // As most derivatives of steps are: zero on both sides.
  if (then->is_number() && otherwise->is_number(then->number)) return then;
  auto node =
      *with_children(Node::Kind::kChoice, {left, right, then, otherwise});
  node.strict = strict;
  return std::make_shared<const Node>(std::move(node));
}

NodePtr replaced(const NodePtr& node, const Replacement& replacement) {
  if (auto other = replacement(*node)) return other;
  std::vector<NodePtr> children;
  for (const auto& child : node->children) {
    children.push_back(replaced(child, replacement));
  }
  switch (node->kind) {
    case Node::Kind::kSum:
      return sum(children);
    case Node::Kind::kProduct:
      return product(children);
    case Node::Kind::kPower:
      return power(children[0], children[1]);
    case Node::Kind::kFunction:
      return call(node->function, children[0]);
    case Node::Kind::kMaximum:
      return maximum(children[0], children[1]);
    case Node::Kind::kMinimum:
      return minimum(children[0], children[1]);
    case Node::Kind::kChoice:
      return choice(children[0], node->strict, children[1], children[2],
                    children[3]);
    case Node::Kind::kField:
    case Node::Kind::kTable:
    case Node::Kind::kSecondOrderSum:
    case Node::Kind::kVariable:
    case Node::Kind::kUnknown:
    case Node::Kind::kNumber:
      break;
  }
  return node;
}

bool same(const Node& a, const Node& b) {
  if (&a == &b) return true;
  if (a.kind != b.kind || a.size != b.size || a.number != b.number ||
      a.variable != b.variable || a.derivative != b.derivative ||
      a.table != b.table || a.function != b.function || a.strict != b.strict) {
    return false;
  }
  return std::ranges::equal(
      a.children, b.children,
      [](const auto& x, const auto& y) { return same(*x, *y); });
}

}  // namespace propagator::pde
