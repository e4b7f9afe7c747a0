#include <fmt/format.h>
#include <fmt/ranges.h>

#include "propagator/autodiff/table.h"
#include "propagator/pde/text/problem.h"

// Problems in words.

namespace propagator::pde {
namespace {

// How each derivative of the equations is computed.
std::vector<std::string> derivative_lines(const Problem& problem) {
  std::vector<std::string> lines;
  const auto plan = problem.plan();
  const auto& symbols = problem.symbols;
  const auto named = problem.derivatives();
  for (const auto& derivative : named) {
    if (derivative.order() == 0) continue;
    lines.push_back(
        fmt::format("{} = {}", derivative.text(symbols),
                    plan.recipe(derivative.orders, symbols.variables)));
  }
  const auto sum = problem.second_order_sum();
  for (int64_t f = 0; f < std::ssize(symbols.fields); ++f) {
    std::vector<std::string> names;
    for (const auto& [orders, factor] : sum) {
      const Derivative derivative{f, orders};
      if (named.contains(derivative)) {
        names.push_back(derivative.text(symbols));
      }
    }
    if (names.empty()) continue;
    lines.push_back(
        fmt::format("in training the sum of {}, as it stands in the equations",
                    fmt::join(names, " and ")));
  }
  return lines;
}

// What is inside, and of which parts its edge is made.
std::vector<std::string> region_lines(const Problem& problem) {
  const auto& region = *problem.region;
  const bool flat = region.dimensions() == 2;
  std::vector<std::string> lines{fmt::format("inside {}: {:.3g} of the box",
                                             problem.inside, region.share())};
  for (int64_t n = 0; n < std::ssize(region.shapes()); ++n) {
    const auto& name = region.shapes()[static_cast<size_t>(n)].name;
    const double size = region.size_of_part(n);
    lines.push_back(
        size > 0 ? fmt::format("{} bounds the domain along {} {:.4g}", name,
                               flat ? "a length of" : "an area of", size)
                 : fmt::format("{} does not bound the domain", name));
  }
  return lines;
}

std::vector<std::string> table_lines(const Problem& problem) {
  std::vector<std::string> lines;
  for (const auto& [name, table] : problem.symbols.tables) {
    lines.push_back(fmt::format("{} at {} nodes", problem.text(*table),
                                fmt::join(table->nodes(), " x ")));
  }
  return lines;
}

std::string bounds_text(const std::optional<Interval>& bounds) {
  if (!bounds) return "";
  return fmt::format(" in [{}, {}]", bounds->low, bounds->high);
}

std::vector<std::string> unknown_lines(const Problem& problem) {
  std::vector<std::string> lines;
  for (const auto& unknown : problem.unknowns) {
    lines.push_back(fmt::format("{}, sought from {:.6g}{}", unknown.name,
                                unknown.start, bounds_text(unknown.bounds)));
  }
  for (const auto& function : problem.functions) {
    lines.push_back(fmt::format(
        "{}{}{}", problem.text(function), bounds_text(function.bounds),
        function.truth ? ", in truth " + function.truth->text() : ""));
  }
  return lines;
}

}  // namespace

std::string Problem::text(const autodiff::Table& table) const {
  std::vector<std::string> own;
  for (const int64_t v : table.variables()) {
    own.push_back(symbols.variables[static_cast<size_t>(v)]);
  }
  return fmt::format("{}({})", table.name(), fmt::join(own, ", "));
}

std::string Problem::text(const Condition& condition) const {
  if (condition.is_on_edge()) {
    return fmt::format(
        "on {}: {} = 0",
        region->shapes()[static_cast<size_t>(condition.shape)].name,
        condition.residual.text());
  }
  const auto& name = symbols.variables[static_cast<size_t>(condition.variable)];
  if (!condition.is_periodic()) {
    return fmt::format("{} {}={}: {} = 0",
                       condition.variable == time() ? "at" : "on", name,
                       condition.at, condition.residual.text());
  }
  std::vector<std::string> matched;
  for (const auto& derivative : condition.matched) {
    matched.push_back(derivative.text(symbols));
  }
  return fmt::format("periodic {}: {}", name, fmt::join(matched, ", "));
}

std::string Problem::describe() const {
  std::string text;
  const auto section = [&text](const char* name,
                               const std::vector<std::string>& lines) {
    if (lines.empty()) return;
    text += fmt::format("{}\n", name);
    for (const auto& line : lines) text += fmt::format("  {}\n", line);
  };
  std::vector<std::string> lines;
  for (size_t i = 0; i < domain.size(); ++i) {
    lines.push_back(fmt::format(
        "{} in [{}, {}]{}", symbols.variables[i], domain[i].low, domain[i].high,
        static_cast<int64_t>(i) == time()       ? " (time)"
        : is_parameter(static_cast<int64_t>(i)) ? " (no derivative by it)"
                                                : ""));
  }
  section("domain", lines);
  if (region) section("shapes", region_lines(*this));
  const auto solved_for = symbols.fields.begin() + solved();
  section(
      "fields",
      {fmt::format("{}", fmt::join(symbols.fields.begin(), solved_for, ", "))});
  lines.clear();
  for (const auto& [name, value] : parameters) {
    lines.push_back(fmt::format("{} = {}", name, value));
  }
  section("parameters", lines);
  lines.clear();
  for (const auto& [name, formula] : symbols.coefficients) {
    lines.push_back(fmt::format("{} = {}", name, formula));
  }
  section("coefficients", lines);
  section("tables", table_lines(*this));
  section("unknown", unknown_lines(*this));
  lines.clear();
  for (const auto& equation : unknowns.empty() ? equations : open_equations) {
    lines.push_back(equation.text() + " = 0");
  }
  section("equations", lines);
  section("derivatives (cn(d): Taylor coefficient n along d)",
          derivative_lines(*this));
  lines.clear();
  for (const auto& condition : conditions) {
    lines.push_back(this->text(condition));
  }
  section("conditions", lines);
  lines.clear();
  for (size_t i = 0; i < exact.size(); ++i) {
    lines.push_back(fmt::format("{} = {}", symbols.fields[i], exact[i].text()));
  }
  section("exact", lines);
  section("remarks", remarks);
  return text;
}

}  // namespace propagator::pde
