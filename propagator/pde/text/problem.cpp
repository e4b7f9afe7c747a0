#include "propagator/pde/text/problem.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "propagator/pde/text/problem_reader.h"
#include "propagator/pde/text/problem_sense.h"

namespace propagator::pde {
namespace {

constexpr int64_t kHighestOrder = 8;
constexpr double kFar = 30;  // from numbers near 1, with which networks begin

// The highest order by `variable` of a field among `derivatives`; -1 if they
// do not name the field.
int64_t highest(const std::set<Derivative>& derivatives, int64_t field,
                int64_t variable) {
  int64_t found = -1;
  for (const auto& derivative : derivatives) {
    if (derivative.field != field) continue;
    found = std::max(found, derivative.orders[static_cast<size_t>(variable)]);
  }
  return found;
}

bool matches(const Condition& condition, int64_t field) {
  return std::ranges::any_of(condition.matched, [field](const auto& matched) {
    return matched.field == field;
  });
}

Derivative pure(const Problem& problem, int64_t field, int64_t variable,
                int64_t order) {
  Derivative derivative{
      field, std::vector<int64_t>(problem.symbols.variables.size(), 0)};
  derivative.orders[static_cast<size_t>(variable)] = order;
  return derivative;
}

// Before it is read: what a list lacks is not the next one's mistake.
void check_lists(const ProblemText& text, Posed posed) {
  if (text.domain.empty()) {
    throw ProblemError("domain", -1, "there is no variable",
                       "add one, such as x in [0, 1]");
  }
  if (text.fields.empty()) {
    throw ProblemError("fields", -1, "there is no field", "add one, such as u");
  }
  if (text.equations.empty()) {
    throw ProblemError("equations", -1, "there is no equation",
                       "add one, such as u_t = u_xx");
  }
  if (!text.unknown.empty() && posed == Posed::kByConditions) {
    throw ProblemError("unknown", -1, "there are no readings to find it from",
                       "give it a value among the parameters, or rebuild the "
                       "field from readings with task: reconstruct");
  }
  if (text.conditions.empty() && posed == Posed::kByConditions) {
    throw ProblemError("conditions", -1, "there is no condition",
                       "add one, such as on x=0: u = 0");
  }
}

void check_fields(const Problem& problem) {
  const auto named = problem.derivatives();
  for (int64_t f = 0; f < problem.solved(); ++f) {
    if (highest(named, f, 0) >= 0) continue;
    const auto& field = problem.symbols.fields[static_cast<size_t>(f)];
    throw ProblemError(
        "equations", -1,
        fmt::format("the field {} appears in no equation", field),
        fmt::format("add an equation for {}, or leave the field out", field));
  }
}

void check_orders(const Problem& problem) {
  for (const auto& derivative : problem.all_derivatives()) {
    if (derivative.order() <= kHighestOrder) continue;
    throw ProblemError(
        "equations", -1,
        fmt::format(
            "a derivative of {} of order {}, and {} is the most",
            problem.symbols.fields[static_cast<size_t>(derivative.field)],
            derivative.order(), kHighestOrder),
        "write a system of lower order, with a field for a derivative");
  }
}

// An order n in time takes the value and n - 1 derivatives at the start.
void check_time(const Problem& problem) {
  const int64_t time = problem.time();
  if (time < 0) return;
  const double start = problem.domain[static_cast<size_t>(time)].low;
  const auto named = problem.derivatives();
  for (int64_t f = 0; f < std::ssize(problem.symbols.fields); ++f) {
    const int64_t order = highest(named, f, time);
    for (int64_t k = 0; k < order; ++k) {
      const bool given = std::ranges::any_of(
          problem.conditions, [&](const Condition& condition) {
            if (condition.variable != time) return false;
            if (condition.is_periodic()) {
              return matches(condition, f);
            }
            return condition.at == start &&
                   highest(condition.residual.derivatives(), f, time) == k;
          });
      if (given) continue;
      const auto text = [&](int64_t n) {
        return pure(problem, f, time, n).text(problem.symbols);
      };
      const auto place = fmt::format(
          "at {}={}", problem.symbols.variables[static_cast<size_t>(time)],
          start);
      throw ProblemError(
          "conditions", -1,
          fmt::format("missing condition on {} {}: the equations have a time "
                      "derivative of {} of order {}",
                      text(k), place, text(0), order),
          fmt::format("add {}: {} = …", place, text(k)));
    }
  }
}

// Conditions on the faces of x, of one field or of all; a periodic one is as
// many as it matches of fields that have derivatives by x.
int64_t count_conditions(const Problem& problem,
                         const std::set<Derivative>& named, int64_t x,
                         std::optional<int64_t> field) {
  int64_t count = 0;
  for (const auto& condition : problem.conditions) {
    if (condition.variable != x) continue;
    if (!condition.is_periodic()) {
      count +=
          !field || highest(condition.residual.derivatives(), *field, x) >= 0;
      continue;
    }
    count += std::ranges::count_if(condition.matched, [&](const auto& one) {
      return field.value_or(one.field) == one.field &&
             highest(named, one.field, x) > 0;
    });
  }
  return count;
}

// In space too few conditions may still be meant, as at infinity, and more may
// agree with each other.
void add_remarks(Problem& problem, Posed posed) {
  const auto remark = [&]<class... Args>(fmt::format_string<Args...> text,
                                         Args&&... args) {
    problem.remarks.push_back(fmt::format(text, std::forward<Args>(args)...));
  };
  const auto plural = [](auto count) { return count == 1 ? "" : "s"; };
  const auto equations = problem.equations.size();
  const auto fields = static_cast<size_t>(problem.solved());
  if (equations != fields) {
    remark("{} equation{} for {} field{}", equations, plural(equations), fields,
           plural(fields));
  }
  const auto named = problem.derivatives();
  for (int64_t x = 0; x < std::ssize(problem.domain); ++x) {
    const auto& variable = problem.symbols.variables[static_cast<size_t>(x)];
    const auto& [low, high] = problem.domain[static_cast<size_t>(x)];
    // Where conditions alone pose it, it is scaled.
    if (posed == Posed::kByReadings &&
        (std::max(std::abs(low), std::abs(high)) > kFar ||
         high - low < 1 / kFar)) {
      remark(
          "{} in [{:g}, {:g}]: networks learn badly where numbers are far from "
          "1; shift and scale {}",
          variable, low, high, variable);
    }
    int64_t orders = 0;
    for (int64_t f = 0; f < std::ssize(problem.symbols.fields); ++f) {
      const int64_t order = highest(named, f, x);
      orders += order;
      const int64_t count = count_conditions(problem, named, x, f);
      if (order < 1 || count >= order || x == problem.time() ||
          posed == Posed::kByReadings || problem.region) {
        continue;
      }
      remark(
          "{} has derivatives by {} up to order {}, but {} condition{} on the "
          "faces of {}",
          problem.symbols.fields[static_cast<size_t>(f)], variable, order,
          count, plural(count), variable);
    }
    const int64_t all = count_conditions(problem, named, x, std::nullopt);
    if (all <= orders || problem.region) continue;
    remark("{} condition{} on the faces of {}, where derivatives by it take {}",
           all, plural(all), variable, orders);
  }
  for (const auto& bare : bare_parts_of_edge(problem)) remark("{}", bare);
  for (const auto& function : problem.functions) {
    if (std::ssize(function.variables) < std::ssize(problem.domain)) continue;
    remark(
        "{} depends on all variables: any fields meet the equations with some "
        "of it, so that only readings say what both are",
        problem.text(function));
  }
  for (const auto& jump : jumps_of_conditions(problem)) remark("{}", jump);
}

}  // namespace

ProblemError::ProblemError(std::string list, int64_t item,
                           const std::string& what, std::string hint)
    : UsageError(item < 0 ? fmt::format("{}: {}", list, what)
                          : fmt::format("{}[{}]: {}", list, item, what),
                 std::move(hint)),
      list_(std::move(list)),
      item_(item) {}

Problem Problem::parse(const ProblemText& text, Posed posed) {
  check_lists(text, posed);
  auto problem = ProblemReader().read(text);
  check_fields(problem);
  check_orders(problem);
  if (posed == Posed::kByConditions) check_time(problem);
  check_sense(problem);
  add_remarks(problem, posed);
  return problem;
}

std::vector<int64_t> Problem::space() const {
  std::vector<int64_t> all;
  for (int64_t x = 0; x < std::ssize(symbols.variables); ++x) {
    if (x != time()) all.push_back(x);
  }
  return all;
}

std::set<Derivative> Condition::derivatives() const {
  return is_periodic() ? std::set(matched.begin(), matched.end())
                       : residual.derivatives();
}

std::set<Derivative> Problem::derivatives() const {
  std::set<Derivative> all;
  for (const auto& equation : equations) all.merge(equation.derivatives());
  for (const auto& open : open_equations) all.merge(open.derivatives());
  return all;
}

std::set<Derivative> Problem::derivatives_on_faces() const {
  std::set<Derivative> all;
  for (const auto& condition : conditions) all.merge(condition.derivatives());
  return all;
}

std::set<Derivative> Problem::all_derivatives() const {
  auto all = derivatives();
  all.merge(derivatives_on_faces());
  return all;
}

Freedom Problem::freedom_of(int64_t field) const {
  auto named = derivatives();
  for (const auto& condition : conditions) {
    // Equal ends say nothing of the value there.
    if (!condition.is_periodic()) named.merge(condition.derivatives());
  }
  bool by_time = time() < 0;
  for (const auto& derivative : named) {
    if (derivative.field != field) continue;
    if (derivative.order() == 0) return Freedom::kNone;
    by_time = by_time || derivative.orders[static_cast<size_t>(time())] > 0;
  }
  return by_time ? Freedom::kConstant : Freedom::kFunctionOfTime;
}

DerivativePlan Problem::plan() const {
  return DerivativePlan(derivatives(), std::ssize(domain));
}

Jet Problem::exact_fields(const Jet& points) const {
  if (exact.empty()) {
    throw std::invalid_argument(
        "[Problem] expected a problem with an exact solution");
  }
  const auto variables = coordinates(points);
  std::vector<torch::Tensor> fields;
  for (const auto& formula : exact) {
    fields.push_back(formula.evaluate({variables, {}}).rows());
  }
  return {torch::stack(fields, -1), points.layout()};
}

}  // namespace propagator::pde
