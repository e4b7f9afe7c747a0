#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "propagator/pde/text/known_functions.h"
#include "propagator/pde/text/problem_reader.h"

// Functions that are to be found, as k(x).

namespace propagator::pde {
namespace {

bool depends_on(const UnknownFunction& function, int64_t variable) {
  return std::ranges::find(function.variables, variable) !=
         function.variables.end();
}

// Those of a formula that a function does not have.
std::vector<std::string> foreign_variables(const Problem& problem,
                                           const UnknownFunction& function,
                                           const Expression& formula,
                                           int64_t besides = -1) {
  std::vector<std::string> names;
  for (const int64_t v : formula.variables()) {
    if (v == besides || depends_on(function, v)) continue;
    names.push_back(problem.symbols.variables[static_cast<size_t>(v)]);
  }
  return names;
}

}  // namespace

void ProblemReader::read_function(const Line& line) {
  const std::string usage = "write k(x), or k(x) in [0.1, 10]";
  const auto& tokens = line.tokens;
  if (!tokens[1].is("(")) return;  // a number, read with the parameters
  UnknownFunction function{std::ssize(problem_.symbols.fields)};
  size_t i = 2;
  for (;; i += 2) {
    const int64_t argument = variable(line, tokens[i]);
    if (depends_on(function, argument)) {
      line.fail(fmt::format("{} stands there twice", tokens[i].text), tokens[i],
                usage);
    }
    function.variables.push_back(argument);
    if (tokens[i + 1].is(")")) break;
    line.expect(i + 1, ",", usage);
  }
  i += 2;
  if (tokens[i].kind != Token::Kind::kEnd) {
    function.bounds = bounds_at(line, i, usage);
  }
  problem_.symbols.fields.push_back(declared(line, tokens[0]));
  problem_.functions.push_back(std::move(function));
}

Expression ProblemReader::without_constant_derivatives(
    const Expression& formula) const {
  std::set<Derivative> zero;
  for (const auto& derivative : formula.derivatives()) {
    for (const auto& function : problem_.functions) {
      if (derivative.field != function.field) continue;
      for (int64_t v = 0; v < std::ssize(derivative.orders); ++v) {
        if (derivative.orders[static_cast<size_t>(v)] > 0 &&
            !depends_on(function, v)) {
          zero.insert(derivative);
        }
      }
    }
  }
  return zero.empty() ? formula : formula.without(zero);
}

void ProblemReader::check_functions() const {
  for (const auto& function : problem_.functions) {
    const auto text = problem_.text(function);
    const auto& name =
        problem_.symbols.fields[static_cast<size_t>(function.field)];
    const auto named = problem_.derivatives();
    if (std::ranges::none_of(named, [&](const Derivative& one) {
          return one.field == function.field;
        })) {
      throw ProblemError("unknown", -1,
                         fmt::format("{} appears in no equation", text),
                         "readings say nothing of it: leave it out");
    }
    for (const auto& condition : problem_.conditions) {
      if (condition.is_periodic()) continue;
      const auto of = condition.derivatives();
      if (std::ranges::any_of(of, [&](const Derivative& one) {
            return one.field != function.field;
          })) {
        continue;
      }
      const auto foreign = foreign_variables(
          problem_, function, condition.residual, condition.variable);
      if (!foreign.empty()) {
        throw ProblemError(
            "conditions", -1,
            fmt::format("{}: {} does not depend on {}", condition.text, text,
                        fmt::join(foreign, ", ")),
            fmt::format("name {} among its variables",
                        fmt::join(foreign, ", ")));
      }
      if (depends_on(function, condition.variable)) continue;
      throw ProblemError(
          "conditions", -1,
          fmt::format("{}: {} does not depend on {}, so this says what it is "
                      "everywhere",
                      condition.text, text,
                      problem_.symbols
                          .variables[static_cast<size_t>(condition.variable)]),
          fmt::format("write the formula in place of {}, or leave it out",
                      name));
    }
  }
}

void ProblemReader::take_truths() {
  for (auto& function : problem_.functions) {
    const auto place = static_cast<size_t>(function.field);
    if (problem_.exact.empty() || !has_exact_[place]) continue;
    function.truth = problem_.exact[place];
    const auto foreign = foreign_variables(problem_, function, *function.truth);
    if (foreign.empty()) continue;
    throw ProblemError(
        "exact", -1,
        fmt::format("{} does not depend on {}", problem_.text(function),
                    fmt::join(foreign, ", ")),
        fmt::format("name {} among its variables", fmt::join(foreign, ", ")));
  }
  const auto solved = has_exact_.begin() + problem_.solved();
  if (std::find(has_exact_.begin(), solved, true) == solved) {
    problem_.exact.clear();
  }
}

int64_t Problem::solved() const {
  return std::ssize(symbols.fields) - std::ssize(functions);
}

bool Problem::is_parameter(int64_t variable) const {
  const auto named = derivatives();
  return std::ranges::none_of(
             named,
             [variable](const Derivative& one) {
               return one.orders[static_cast<size_t>(variable)] > 0;
             }) &&
         std::ranges::none_of(conditions, [variable](const Condition& one) {
           return one.variable == variable;
         });
}

int64_t Problem::parameter() const {
  for (int64_t v = 0; v < std::ssize(domain); ++v) {
    if (v != time() && is_parameter(v)) return v;
  }
  return -1;
}

std::string Problem::text(const UnknownFunction& function) const {
  std::vector<std::string> names;
  for (const int64_t v : function.variables) {
    names.push_back(symbols.variables[static_cast<size_t>(v)]);
  }
  return fmt::format("{}({})",
                     symbols.fields[static_cast<size_t>(function.field)],
                     fmt::join(names, ", "));
}

Problem with_known_functions(const Problem& problem) {
  auto known = problem;
  known.symbols.fields.resize(static_cast<size_t>(problem.solved()));
  known.functions.clear();
  known.unknowns.clear();
  known.open_equations.clear();
  known.conditions.clear();
  for (auto condition : problem.conditions) {
    std::erase_if(condition.matched, [&](const Derivative& one) {
      return one.field >= problem.solved();
    });
    for (const auto& function : problem.functions) {
      condition.residual =
          condition.residual.with_field(function.field, function.truth.value());
    }
    if (!condition.derivatives().empty()) known.conditions.push_back(condition);
  }
  for (const auto& function : problem.functions) {
    for (auto& equation : known.equations) {
      equation = equation.with_field(function.field, *function.truth);
    }
  }
  return known;
}

bool is_known(const Problem& problem) {
  return std::ranges::all_of(
             problem.unknowns,
             [](const auto& one) { return one.truth.has_value(); }) &&
         std::ranges::all_of(problem.functions, [](const auto& one) {
           return one.truth.has_value();
         });
}

}  // namespace propagator::pde
