#include "propagator/pde/text/expression.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "propagator/autodiff/jet_choice.h"
#include "propagator/pde/text/expression_node.h"
#include "propagator/pde/text/second_order_sum.h"

namespace propagator::pde {
namespace {

Jet evaluated(const Node& node, const Environment& environment);

Jet evaluated_sum(const Node& node, const Environment& environment) {
  std::optional<Jet> total;
  double constant = 0;
  for (const auto& term : node.children) {
    if (term->is_number()) {
      constant = term->number;
      continue;
    }
    const auto jet = evaluated(*term, environment);
    total = total ? *total + jet : jet;
  }
  return *total + constant;
}

Jet evaluated_product(const Node& node, const Environment& environment) {
  std::optional<Jet> total;
  double constant = 1;
  for (const auto& factor : node.children) {
    if (factor->is_number()) {
      constant = factor->number;
      continue;
    }
    const auto jet = evaluated(*factor, environment);
    total = total ? *total * jet : jet;
  }
  return constant == 1 ? *total : *total * constant;
}

Jet evaluated_power(const Node& node, const Environment& environment) {
  const auto& base = *node.children[0];
  const auto& exponent = *node.children[1];
  if (exponent.is_number()) {
    return pow(evaluated(base, environment), exponent.number);
  }
  const auto y = evaluated(exponent, environment);
  if (base.is_number()) return exp(y * std::log(base.number));
  return exp(y * log(evaluated(base, environment)));
}

Jet evaluated_choice(const Node& node, const Environment& environment) {
  const auto child = [&](size_t n) {
    return evaluated(*node.children[n], environment);
  };
  const auto a = child(0), b = child(1);
  switch (node.kind) {
    case Node::Kind::kMaximum:
      return autodiff::choose(b.value() <= a.value(), a, b);
    case Node::Kind::kMinimum:
      return autodiff::choose(a.value() <= b.value(), a, b);
    default:
      return autodiff::choose(
          node.strict ? a.value() < b.value() : a.value() <= b.value(),
          child(2), child(3));
  }
}

// Of anything but a number, which the node above takes as a double: a tensor
// of it would have to know the type and device of the others.
Jet evaluated(const Node& node, const Environment& environment) {
  switch (node.kind) {
    case Node::Kind::kVariable:
      return environment.variables.at(static_cast<size_t>(node.variable));
    case Node::Kind::kUnknown:
      if (environment.unknowns.empty()) {
        throw std::invalid_argument(
            "[Expression] expected an environment with unknowns, got none");
      }
      return Jet::constant(
          environment.unknowns.at(static_cast<size_t>(node.variable)));
    case Node::Kind::kField:
      if (!environment.field) {
        throw std::invalid_argument(
            "[Expression] expected an environment with fields, got none");
      }
      return environment.field(node.derivative);
    case Node::Kind::kTable:
      return (*node.table)(environment.variables, node.derivative.orders);
    case Node::Kind::kSecondOrderSum:
      if (!environment.second_order_sum) {
        throw std::invalid_argument(
            "[Expression] expected an environment with sums of second "
            "derivatives, got none");
      }
      return environment.second_order_sum(node.derivative.field);
    case Node::Kind::kSum:
      return evaluated_sum(node, environment);
    case Node::Kind::kProduct:
      return evaluated_product(node, environment);
    case Node::Kind::kPower:
      return evaluated_power(node, environment);
    case Node::Kind::kFunction:
      return entry(node.function)
          .jet(evaluated(*node.children[0], environment));
    case Node::Kind::kMaximum:
    case Node::Kind::kMinimum:
    case Node::Kind::kChoice:
      return evaluated_choice(node, environment);
    case Node::Kind::kNumber:
      break;
  }
  if (environment.variables.empty()) {
    return Jet::constant(torch::full({}, node.number, torch::kFloat64));
  }
  const auto& like = environment.variables[0];
  auto rows = torch::zeros_like(like.rows());
  rows[0].fill_(node.number);
  return {rows, like.layout()};
}

template <class Visit>
void for_each_node(const Node& node, Visit&& visit) {
  visit(node);
  for (const auto& child : node.children) for_each_node(*child, visit);
}

// Adds those of factor · node; whether there are constant ones.
bool add_factors(const Node& node, int64_t order, double factor,
                 std::map<Derivative, double>& factors) {
  const auto is_one = [order](const Node& part) {
    return part.kind == Node::Kind::kField && part.derivative.order() == order;
  };
  const auto& parts = node.children;
  if (is_one(node)) {
    factors[node.derivative] += factor;
    return true;
  }
  if (node.kind == Node::Kind::kSum) {
    return std::ranges::all_of(parts, [&](const NodePtr& part) {
      return add_factors(*part, order, factor, factors);
    });
  }
  if (node.kind == Node::Kind::kProduct && parts.size() == 2 &&
      parts[0]->is_number()) {
    return add_factors(*parts[1], order, factor * parts[0]->number, factors);
  }
  bool none = true;
  for_each_node(node, [&](const Node& part) { none &= !is_one(part); });
  return none;
}

}  // namespace

Expression::Expression()
    : Expression(number(0), std::make_shared<const Symbols>()) {}

Expression::Expression(NodePtr root, std::shared_ptr<const Symbols> symbols)
    : root_(std::move(root)), symbols_(std::move(symbols)) {}

Expression Expression::parse(const std::string& text, const Symbols& symbols,
                             Part part) {
  return {parse_tree(text, part.from, part.to, /*equation=*/false, symbols),
          std::make_shared<const Symbols>(symbols)};
}

Expression Expression::parse_equation(const std::string& text,
                                      const Symbols& symbols, Part part) {
  return {parse_tree(text, part.from, part.to, /*equation=*/true, symbols),
          std::make_shared<const Symbols>(symbols)};
}

std::vector<Expression> Expression::read(const std::string& text,
                                         const Symbols& symbols, Part part,
                                         bool equation) {
  const auto shared = std::make_shared<const Symbols>(symbols);
  std::vector<Expression> parts;
  for (auto& root :
       pde::parse_parts(text, part.from, part.to, equation, symbols)) {
    parts.push_back({std::move(root), shared});
  }
  return parts;
}

std::vector<Expression> Expression::parse_parts(const std::string& text,
                                                const Symbols& symbols,
                                                Part part) {
  return read(text, symbols, part, /*equation=*/false);
}

std::vector<Expression> Expression::parse_equations(const std::string& text,
                                                    const Symbols& symbols,
                                                    Part part) {
  auto parts = read(text, symbols, part, /*equation=*/true);
  if (parts.size() == 2 && parts[0].constant() == 0) parts.erase(parts.begin());
  return parts;
}

Jet Expression::evaluate(const Environment& environment) const {
  return evaluated(*root_, environment);
}

Expression Expression::derivative(int64_t variable) const {
  if (variable < 0 || variable >= std::ssize(symbols_->variables)) {
    throw std::invalid_argument(
        "[Expression] expected the index of a variable");
  }
  return {differentiate(root_, variable), symbols_};
}

std::vector<Expression> Expression::terms() const {
  if (root_->kind != Node::Kind::kSum) return {*this};
  std::vector<Expression> terms;
  for (const auto& term : root_->children) terms.push_back({term, symbols_});
  return terms;
}

Expression Expression::without(const std::set<Derivative>& derivatives) const {
  const auto zero = [&](const Node& node) {
    return node.kind == Node::Kind::kField &&
                   derivatives.contains(node.derivative)
               ? number(0)
               : nullptr;
  };
  return {replaced(root_, zero), symbols_};
}

Expression Expression::with_field(int64_t field,
                                  const Expression& formula) const {
  const auto in_place = [&](const Node& node) -> NodePtr {
    if (node.kind != Node::Kind::kField || node.derivative.field != field) {
      return nullptr;
    }
    auto derived = formula.root_;
    const auto& orders = node.derivative.orders;
    for (int64_t v = 0; v < std::ssize(orders); ++v) {
      for (int64_t n = 0; n < orders[static_cast<size_t>(v)]; ++n) {
        derived = differentiate(derived, v);
      }
    }
    return derived;
  };
  return {replaced(root_, in_place), symbols_};
}

Expression Expression::with_sum(const SecondOrderSum& sum) const {
  const auto factors = factors_of_order(2);
  if (!factors ||
      !std::ranges::all_of(sums_of_fields(*factors), [&](const auto& of_field) {
        return are_multiples(of_field.second, sum);
      })) {
    throw std::invalid_argument(fmt::format(
        "[Expression] expected second derivatives in multiples of the sum "
        "alone, got {}",
        text()));
  }
  // The first one's factor is that of the sum over its own first factor.
  const auto in_sum = [&](const Node& node) -> NodePtr {
    const auto& [field, orders] = node.derivative;
    if (node.kind != Node::Kind::kField || !sum.contains(orders)) {
      return nullptr;
    }
    return orders == sum.begin()->first ? second_order_sum(field) : number(0);
  };
  return {replaced(root_, in_sum), symbols_};
}

std::set<Derivative> Expression::derivatives() const {
  std::set<Derivative> found;
  for_each_node(*root_, [&found](const Node& node) {
    if (node.kind == Node::Kind::kField) found.insert(node.derivative);
  });
  return found;
}

std::optional<std::map<Derivative, double>> Expression::factors_of_order(
    int64_t n) const {
  std::map<Derivative, double> factors;
  if (!add_factors(*root_, n, 1, factors)) return std::nullopt;
  return factors;
}

bool Expression::has_corners() const {
  bool found = false;
  for_each_node(*root_, [&found](const Node& node) {
    const bool steps = node.function == Function::kAbs ||
                       node.function == Function::kSign ||
                       node.function == Function::kHeaviside;
    found |= (node.kind == Node::Kind::kFunction && steps) ||
             node.kind == Node::Kind::kMaximum ||
             node.kind == Node::Kind::kMinimum ||
             node.kind == Node::Kind::kChoice;
  });
  return found;
}

std::vector<Expression> Expression::under_roots() const {
  std::vector<Expression> found;
  for_each_node(*root_, [&](const Node& node) {
    const auto is_whole = [](const Node& n) {
      return n.is_number() && n.number == std::round(n.number);
    };
    const bool root =
        (node.kind == Node::Kind::kFunction &&
         node.function == Function::kSqrt) ||
        (node.kind == Node::Kind::kPower && !is_whole(*node.children[1]));
    if (root) found.push_back({node.children[0], symbols_});
  });
  return found;
}

std::set<int64_t> Expression::variables() const {
  std::set<int64_t> found;
  for_each_node(*root_, [&found](const Node& node) {
    if (node.kind == Node::Kind::kVariable) found.insert(node.variable);
    if (node.kind == Node::Kind::kTable) {
      found.insert(node.table->variables().begin(),
                   node.table->variables().end());
    }
  });
  return found;
}

std::set<int64_t> Expression::unknowns() const {
  std::set<int64_t> found;
  for_each_node(*root_, [&found](const Node& node) {
    if (node.kind == Node::Kind::kUnknown) found.insert(node.variable);
  });
  return found;
}

std::optional<double> Expression::constant() const {
  if (!root_->is_number()) return std::nullopt;
  return root_->number;
}

std::string Expression::text() const { return print(*root_, *symbols_); }

bool Expression::operator==(const Expression& other) const {
  return same(*root_, *other.root_);
}

}  // namespace propagator::pde
