#include <fmt/format.h>

#include <cmath>

#include "propagator/pde/text/expression_node.h"

namespace propagator::pde {
namespace {

// How tightly the outermost operation of a text binds.
enum class Level { kSum, kProduct, kPower, kAtom };

struct Printed {
  std::string text;
  Level level;

  std::string within(Level needed) const {
    return level < needed ? fmt::format("({})", text) : text;
  }
};

// What a term is apart from its sign: x − 2·y prints without brackets.
struct Signed {
  bool negative;
  NodePtr magnitude;
};

Signed without_sign(const NodePtr& node) {
  if (node->is_number()) {
    return {node->number < 0, number(std::abs(node->number))};
  }
  if (node->kind != Node::Kind::kProduct) return {false, node};
  const auto& first = node->children[0];
  if (!first->is_number() || first->number > 0) return {false, node};
  return {true, negative(node)};
}

bool is_below_the_line(const Node& node) {
  return node.kind == Node::Kind::kPower && node.children[1]->is_number() &&
         node.children[1]->number < 0;
}

class Printer {
 public:
  explicit Printer(const Symbols& symbols) : symbols_(symbols) {}

  Printed print(const NodePtr& node) const {
    const auto [negative, magnitude] = without_sign(node);
    if (!negative) return unsigned_term(*node);
    return {
        fmt::format("-{}", unsigned_term(*magnitude).within(Level::kProduct)),
        Level::kSum};
  }

 private:
  Printed unsigned_term(const Node& node) const {
    switch (node.kind) {
      case Node::Kind::kNumber:
        return {fmt::format("{}", node.number), Level::kAtom};
      case Node::Kind::kVariable:
        return {symbols_.variables.at(static_cast<size_t>(node.variable)),
                Level::kAtom};
      case Node::Kind::kUnknown:
        return {symbols_.unknowns.at(static_cast<size_t>(node.variable)),
                Level::kAtom};
      case Node::Kind::kField:
        return {node.derivative.text(symbols_), Level::kAtom};
      case Node::Kind::kTable:
        return {table_text(node), Level::kAtom};
      case Node::Kind::kSecondOrderSum:
        return {fmt::format("second_order_sum({})",
                            symbols_.fields.at(
                                static_cast<size_t>(node.derivative.field))),
                Level::kAtom};
      case Node::Kind::kSum:
        return {sum_text(node), Level::kSum};
      case Node::Kind::kProduct:
        return {product_text(node.children), Level::kProduct};
      case Node::Kind::kPower:
        if (is_below_the_line(node)) {
          return {fmt::format("1/{}", power_text(node, -1)), Level::kProduct};
        }
        return {power_text(node, 1), Level::kPower};
      case Node::Kind::kFunction:
        return {fmt::format("{}({})", entry(node.function).name,
                            print(node.children[0]).text),
                Level::kAtom};
      case Node::Kind::kMaximum:
        return {fmt::format("max({}, {})", print(node.children[0]).text,
                            print(node.children[1]).text),
                Level::kAtom};
      case Node::Kind::kMinimum:
        return {fmt::format("min({}, {})", print(node.children[0]).text,
                            print(node.children[1]).text),
                Level::kAtom};
      case Node::Kind::kChoice:
        return {fmt::format(
                    "if({} {} {}, {}, {})", print(node.children[0]).text,
                    node.strict ? "<" : "<=", print(node.children[1]).text,
                    print(node.children[2]).text, print(node.children[3]).text),
                Level::kAtom};
    }
    return {};
  }

  // "d(d(k, x), t)"
  std::string table_text(const Node& node) const {
    auto text = node.table->name();
    const auto& own = node.table->variables();
    for (size_t a = 0; a < own.size(); ++a) {
      const auto& by = symbols_.variables.at(static_cast<size_t>(own[a]));
      for (int64_t n = 0; n < node.derivative.orders[a]; ++n) {
        text = fmt::format("d({}, {})", text, by);
      }
    }
    return text;
  }

  std::string sum_text(const Node& node) const {
    std::string text;
    for (const auto& child : node.children) {
      const auto [negative, magnitude] = without_sign(child);
      text += text.empty() ? (negative ? "-" : "") : negative ? " - " : " + ";
      text += unsigned_term(*magnitude).within(Level::kProduct);
    }
    return text;
  }

  std::string product_text(const std::vector<NodePtr>& factors) const {
    std::string text;
    for (const auto& factor : factors) {
      if (is_below_the_line(*factor)) {
        text += text.empty() ? "1/" : "/";
        text += power_text(*factor, -1);
      } else {
        text += text.empty() ? "" : "*";
        text += print(factor).within(Level::kPower);
      }
    }
    return text;
  }

  // b^y, or b^-y for the sign -1.
  std::string power_text(const Node& node, double sign) const {
    const auto base = print(node.children[0]);
    const auto exponent =
        sign < 0 ? number(-node.children[1]->number) : node.children[1];
    if (exponent->is_number(1)) return base.within(Level::kPower);
    return base.within(Level::kAtom) + "^" +
           print(exponent).within(Level::kPower);
  }

  const Symbols& symbols_;
};

}  // namespace

std::string print(const Node& node, const Symbols& symbols) {
  // A pointer that owns nothing: the node outlives this call.
  const NodePtr root(NodePtr(), &node);
  return Printer(symbols).print(root).text;
}

}  // namespace propagator::pde
