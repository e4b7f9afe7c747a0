#include "propagator/pde/text/expression_operators.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "propagator/pde/text/expression.h"

namespace propagator::pde {
namespace {

using Arguments = std::vector<Value>;

constexpr size_t kMany = 16;  // arguments

// All variables but time, and but the normal on an edge.
std::vector<int64_t> space_of(const Symbols& symbols) {
  std::vector<int64_t> space;
  const auto places = symbols.variables.size() - symbols.beside;
  for (int64_t x = 0; x < static_cast<int64_t>(places); ++x) {
    if (x != time_of(symbols)) space.push_back(x);
  }
  if (space.empty()) {
    throw FoldingError("there is no variable of space: the only one is time",
                       "write a derivative by time as d(…, t)");
  }
  return space;
}

template <NodePtr (*kOf)(const NodePtr&, const NodePtr&)>
Value extreme(const Arguments& arguments, const Symbols&) {
  auto found = arguments[0].real("max and min take");
  for (size_t n = 1; n < arguments.size(); ++n) {
    found = kOf(found, arguments[n].real("max and min take"));
  }
  return {found};
}

Value real_part(const Arguments& arguments, const Symbols&) {
  return {arguments[0].scalar("re takes").real};
}

Value imaginary_part(const Arguments& arguments, const Symbols&) {
  const auto& z = arguments[0].scalar("im takes");
  return {z.imaginary ? z.imaginary : number(0)};
}

Value conjugate_of(const Arguments& arguments, const Symbols&) {
  return Value(conjugate(arguments[0].scalar("conj takes")));
}

Value gradient(const Arguments& arguments, const Symbols& symbols) {
  const Value f(arguments[0].scalar("grad takes"));
  std::vector<Scalar> slopes;
  for (const int64_t x : space_of(symbols)) {
    slopes.push_back(differentiate(f, x).parts[0]);
  }
  return Value(std::move(slopes));
}

// Of a vector, or of its components one by one.
Value divergence(const Arguments& arguments, const Symbols& symbols) {
  const auto space = space_of(symbols);
  const bool one = arguments[0].is_vector;
  std::vector<Scalar> components;
  for (const auto& argument : arguments) {
    if (one && arguments.size() == 1) {
      components = argument.parts;
    } else {
      components.push_back(argument.scalar("a component of div is"));
    }
  }
  if (components.size() != space.size()) {
    std::string names;
    for (const int64_t x : space) {
      names += (names.empty() ? "" : ", ") +
               symbols.variables[static_cast<size_t>(x)];
    }
    throw FoldingError(
        fmt::format("div takes a vector with a component for each variable of "
                    "space ({}), got {}",
                    names, components.size()),
        "write div(k*grad(u)), or div(u, v) in two of them");
  }
  Arguments slopes;
  for (size_t c = 0; c < space.size(); ++c) {
    slopes.push_back(differentiate(Value(components[c]), space[c]));
  }
  return total(slopes);
}

Value laplacian(const Arguments& arguments, const Symbols& symbols) {
  const Value f(arguments[0].scalar("laplacian takes"));
  Arguments curvatures;
  for (const int64_t x : space_of(symbols)) {
    curvatures.push_back(differentiate(differentiate(f, x), x));
  }
  return total(curvatures);
}

Value inner_product(const Arguments& arguments, const Symbols&) {
  const auto& a = arguments[0];
  const auto& b = arguments[1];
  if (!a.is_vector || !b.is_vector) {
    throw FoldingError("dot takes two vectors, got a number",
                       "a vector is grad(u), or (u, v); of numbers write a*b");
  }
  if (a.parts.size() != b.parts.size()) {
    throw FoldingError(
        fmt::format("dot takes two vectors with as many components, got {} "
                    "and {}",
                    a.parts.size(), b.parts.size()));
  }
  Arguments products;
  for (size_t c = 0; c < a.parts.size(); ++c) {
    products.push_back(times({Value(a.parts[c]), Value(b.parts[c])}));
  }
  return total(products);
}

const auto& operators() {
  static const std::array<Operator, 9> all = {{
      {"max", 2, kMany, "write max(a, b)", extreme<maximum>},
      {"min", 2, kMany, "write min(a, b)", extreme<minimum>},
      {"re", 1, 1, "write re(u)", real_part},
      {"im", 1, 1, "write im(u)", imaginary_part},
      {"conj", 1, 1, "write conj(u)", conjugate_of},
      {"grad", 1, 1, "write grad(u)", gradient},
      {"div", 1, kMany, "write div(k*grad(u)), or div(u, v)", divergence},
      {"laplacian", 1, 1, "write laplacian(u)", laplacian},
      {"dot", 2, 2, "write dot(grad(u), grad(v))", inner_product},
  }};
  return all;
}

}  // namespace

const Operator* find_operator(std::string_view name) {
  const auto found = std::ranges::find(operators(), name, &Operator::name);
  return found == operators().end() ? nullptr : &*found;
}

std::vector<std::string> operator_names() {
  std::vector<std::string> names{"if"};
  for (const auto& known : operators()) names.emplace_back(known.name);
  return names;
}

int64_t time_of(const Symbols& symbols) {
  const auto& names = symbols.variables;
  const auto place = [&names](const std::string& name) -> int64_t {
    const auto found = std::ranges::find(names, name);
    return found == names.end() ? -1 : found - names.begin();
  };
  if (!symbols.time.empty()) return place(symbols.time);
  return place("t") >= 0 ? place("t") : place("time");
}

}  // namespace propagator::pde
