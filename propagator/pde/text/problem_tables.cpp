#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/utils.h>

#include <algorithm>

#include "propagator/autodiff/table.h"
#include "propagator/pde/text/problem_reader.h"

// Functions that numbers on a grid give.

namespace propagator::pde {
namespace {

using torch::Tensor;

constexpr double kRoundedAway = 1e-9;  // of the domain, at its ends

// Where numbers stand: along each axis its nodes, and of each number which
// node of the grid it is at.
struct NumberGrid {
  std::vector<Tensor> nodes;
  std::vector<int64_t> sizes;
  Tensor places;  // (N)

  // `axes`: of each variable its value at every number, (N).
  explicit NumberGrid(const std::vector<Tensor>& axes) {
    for (const auto& axis : axes) {
      const auto [values, place, counts] =
          torch::unique_dim(axis, 0, true, true, true);
      nodes.push_back(values);
      sizes.push_back(values.size(0));
      places = places.defined() ? places * values.size(0) + place : place;
    }
  }
  // Whether every node has one number.
  bool is_whole() const {
    int64_t all = 1;
    for (const int64_t size : sizes) all *= size;
    return places.size(0) == all &&
           std::get<0>(torch::_unique(places)).size(0) == all;
  }
  Tensor arranged(const Tensor& numbers) const {
    return torch::empty_like(numbers).index_put_({places}, numbers).view(sizes);
  }
};

// Arrays over axes of their own, (n_1), (n_2) and (n_1, n_2), as one of (N)
// each; those of one shape are so already.
std::vector<Tensor> spread(std::vector<Tensor> axes, const Tensor& numbers) {
  std::vector<int64_t> sizes;
  for (const auto& axis : axes) sizes.push_back(axis.numel());
  if (axes.size() > 1 && numbers.sizes() == sizes) {
    for (auto& axis : axes) axis = axis.flatten();
    axes = torch::meshgrid(axes, "ij");
  }
  for (auto& axis : axes) axis = axis.to(torch::kFloat64).flatten();
  return axes;
}

[[noreturn]] void fail_table(const NumberTable& table, const std::string& what,
                             const std::string& hint) {
  throw SyntaxError(what, table.source, 0, table.source.size(), hint);
}

}  // namespace

void ProblemReader::read_table(const NumberTable& table) {
  std::vector<int64_t> own;
  std::vector<Tensor> axes;
  std::vector<std::string> names;
  const auto& variables = problem_.symbols.variables;
  for (size_t v = 0; v < variables.size(); ++v) {
    const auto found = table.numbers.find(variables[v]);
    if (found == table.numbers.end()) continue;
    own.push_back(static_cast<int64_t>(v));
    axes.push_back(found->second);
  }
  for (const auto& [name, numbers] : table.numbers) {
    if (std::ranges::count(variables, name) == 0) names.push_back(name);
  }
  if (own.empty() || names.empty()) {
    fail_table(
        table,
        fmt::format("there are no numbers under {}",
                    own.empty() ? fmt::format("a variable ({})",
                                              fmt::join(variables, ", "))
                                : "a name that is no variable"),
        "a table has columns, or arrays, of some of the variables and of "
        "functions of them, as x, y, k");
  }
  for (const auto& name : names) {
    const Line line(name);
    if (line.tokens.size() != 2) {
      fail_table(table, fmt::format("'{}' is no name for formulas", name),
                 "names are letters, digits and _");
    }
    add_table(declared(line, line.tokens[0]), table, own, axes);
  }
}

void ProblemReader::add_table(const std::string& name, const NumberTable& table,
                              const std::vector<int64_t>& own,
                              const std::vector<Tensor>& axes) {
  const auto numbers = table.numbers.at(name).to(torch::kFloat64);
  const auto places = spread(axes, numbers);
  const auto is_of_another_length = [&](const Tensor& axis) {
    return axis.numel() != numbers.numel();
  };
  if (numbers.numel() == 0 ||
      std::ranges::any_of(places, is_of_another_length)) {
    fail_table(table,
               fmt::format("{} has {} numbers, its variables have others", name,
                           numbers.numel()),
               "give a number for each point, or an axis for each variable and "
               "numbers at all their nodes");
  }
  const auto missing = torch::isfinite(numbers).logical_not().sum();
  if (missing.item<int64_t>() > 0) {
    fail_table(table,
               fmt::format("{} has no number at {} places", name,
                           missing.item<int64_t>()),
               "a table needs a number at each node of its grid");
  }
  const NumberGrid grid(places);
  if (!grid.is_whole()) {
    fail_table(
        table,
        fmt::format("{} has {} numbers, where its grid has {} nodes", name,
                    numbers.numel(), fmt::join(grid.sizes, " x ")),
        "a table needs one number at each node of a grid; what is known at "
        "scattered points can be sought: task reconstruct");
  }
  expect_domain_covered(name, table, own, grid.nodes);
  problem_.symbols.tables[name] = std::make_shared<const autodiff::Table>(
      name, own, grid.nodes, grid.arranged(numbers.flatten()));
}

void ProblemReader::expect_domain_covered(
    const std::string& name, const NumberTable& table,
    const std::vector<int64_t>& own, const std::vector<Tensor>& nodes) const {
  for (size_t a = 0; a < own.size(); ++a) {
    const auto v = static_cast<size_t>(own[a]);
    const auto& variable = problem_.symbols.variables[v];
    if (nodes[a].size(0) < 2) {
      fail_table(
          table, fmt::format("{} has one value of {} alone", name, variable),
          fmt::format("leave {} out, if it does not depend on it", variable));
    }
    const auto [low, high] = problem_.domain[v];
    const double first = nodes[a][0].item<double>();
    const double last = nodes[a][-1].item<double>();
    const double rounding = kRoundedAway * (high - low);
    if (first <= low + rounding && last >= high - rounding) continue;
    fail_table(table,
               fmt::format("{} goes from {} = {:g} to {:g}, the domain from "
                           "{:g} to {:g}",
                           name, variable, first, last, low, high),
               "nothing is known beyond its nodes: narrow the domain");
  }
}

}  // namespace propagator::pde
