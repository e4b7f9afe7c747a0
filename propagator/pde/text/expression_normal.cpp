#include <fmt/format.h>

#include <algorithm>

#include "propagator/pde/text/expression.h"
#include "propagator/pde/text/expression_node.h"
#include "propagator/pde/text/tokens.h"

namespace propagator::pde {
namespace {

constexpr const char* kNormal = "n";

bool is_taken(const Symbols& symbols, const std::string& name) {
  return std::ranges::count(symbols.variables, name) > 0 ||
         std::ranges::count(symbols.fields, name) > 0 ||
         symbols.constants.contains(name) ||
         symbols.coefficients.contains(name) || symbols.tables.contains(name) ||
         derivative_named(name, symbols).has_value();
}

// The symbols of a line on an edge: behind the variables the components of the
// normal and then the normal itself, by which fields have derivatives. A name
// that means something else already is left that.
struct OnEdge {
  const Symbols& plain;
  const Normal& normal;
  Symbols with_components, extended;
  size_t first, last;  // component, and the normal

  OnEdge(const Symbols& symbols, const Normal& of_edge)
      : plain(symbols),
        normal(of_edge),
        with_components(symbols),
        first(symbols.variables.size()),
        last(first + normal.space.size()) {
    extended = symbols;
    for (const int64_t x : normal.space) {
      const auto name = fmt::format("{}_{}", kNormal,
                                    symbols.variables[static_cast<size_t>(x)]);
      with_components.variables.push_back(name);
      extended.variables.push_back(is_taken(symbols, name) ? "" : name);
    }
    if (!normal.components.empty()) with_components = symbols;
    extended.variables.push_back(kNormal);
    extended.beside = normal.space.size() + 1;
  }

  NodePtr component(size_t n) const {
    return normal.components.empty() ? variable(static_cast<int64_t>(first + n))
                                     : number(normal.components[n]);
  }

  // In place of what the longer list of variables gave; no node: the same.
  NodePtr translated(const Node& node) const {
    const auto at = static_cast<size_t>(node.variable);
    if (node.kind == Node::Kind::kVariable && at >= first) {
      return at == last ? itself() : component(at - first);
    }
    if (node.kind != Node::Kind::kField) return nullptr;
    auto orders = node.derivative.orders;
    const auto along = orders[last];
    for (size_t n = first; n < last; ++n) {
      if (orders[n] > 0) throw FoldingError(kUsage);
    }
    if (along > 1) throw FoldingError(kUsage);
    orders.resize(first);
    if (along == 0) return field({node.derivative.field, orders});
    std::vector<NodePtr> terms;
    for (size_t n = 0; n < normal.space.size(); ++n) {
      auto raised = orders;
      ++raised[static_cast<size_t>(normal.space[n])];
      terms.push_back(product(
          {component(n), field({node.derivative.field, std::move(raised)})}));
    }
    return sum(terms);
  }

  // What the name alone means: a parameter, a coefficient or a field of that
  // name, if any.
  NodePtr itself() const {
    if (const auto known = plain.constants.find(kNormal);
        known != plain.constants.end()) {
      return number(known->second);
    }
    if (const auto known = plain.coefficients.find(kNormal);
        known != plain.coefficients.end()) {
      return parse_tree(known->second, 0, known->second.size(),
                        /*equation=*/false, plain);
    }
    if (const auto own = derivative_named(kNormal, plain)) return field(*own);
    throw FoldingError(kUsage);
  }

  static constexpr const char* kUsage =
      "the outward normal stands in first derivatives alone";
};

}  // namespace

std::vector<Expression> Expression::parse_on_edge(const std::string& text,
                                                  const Symbols& symbols,
                                                  const Normal& normal,
                                                  Part part) {
  if (std::ranges::count(symbols.variables, kNormal) > 0) {
    return parse_equations(text, symbols, part);
  }
  const OnEdge edge(symbols, normal);
  auto parts = parse_equations(text, edge.extended, part);
  const auto tokens = tokenize(text, part.from, part.to);
  for (size_t i = 1; i < tokens.size(); ++i) {
    const auto& by = edge.extended.variables;
    const auto is_normal =
        std::find(by.begin() + static_cast<int64_t>(edge.first), by.end(),
                  tokens[i].text) != by.end();
    // d(k*u, n) would take k for constant.
    if (!is_normal || !tokens[i - 1].is(",")) continue;
    throw SyntaxError(OnEdge::kUsage, text, tokens[i].at, tokens[i].length,
                      "write u_n");
  }
  try {
    const auto shared = std::make_shared<const Symbols>(edge.with_components);
    for (auto& one : parts) {
      one = {replaced(one.root_,
                      [&](const Node& n) { return edge.translated(n); }),
             shared};
    }
    return parts;
  } catch (const FoldingError& error) {
    throw SyntaxError(error.what(), text, part.from,
                      std::min(part.to, text.size()) - part.from,
                      "write u_n, or n_x*u_x + …");
  }
}

}  // namespace propagator::pde
