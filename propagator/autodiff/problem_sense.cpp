#include "propagator/autodiff/problem_sense.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>

namespace propagator::autodiff {
namespace {

// How far places are from the low to the high end of each variable: by golden
// sections, where no wave of a round number has a node.
constexpr double kParts[] = {0.381966011250105, 0.145898033750315,
                             0.763932022500210};

// One number for each variable.
using Place = std::vector<double>;

Place place_on(const Problem& problem, double part,
               std::initializer_list<const Condition*> faces) {
  Place place;
  for (const auto& [low, high] : problem.domain) {
    place.push_back(low + part * (high - low));
  }
  for (const auto* face : faces) {
    place[static_cast<size_t>(face->variable)] = face->at;
  }
  return place;
}

// What a formula comes to, with these numbers in place of fields.
double value_at(const Place& place, const Expression& formula,
                const std::function<double(const Derivative&)>& fields) {
  const auto jet = [](double number) {
    return Jet::constant(torch::full({}, number, torch::kFloat64));
  };
  std::vector<Jet> variables;
  for (const double number : place) variables.push_back(jet(number));
  const auto field = [&](const Derivative& named) {
    return jet(fields(named));
  };
  return formula.evaluate({variables, field}).value().item<double>();
}

// Numbers of this size, another one for each that is named. Other numbers
// belong to another `choice`.
std::function<double(const Derivative&)> some_fields(std::set<Derivative> named,
                                                     double size, int choice) {
  return [named = std::move(named), size, choice](const Derivative& one) {
    const auto rank = std::distance(named.begin(), named.find(one));
    return size * std::sin(1 + 2.3 * static_cast<double>(rank) + 4.1 * choice);
  };
}

// Fields of which size a residual notices beside its own numbers.
double size_noticed(const Place& place, const Expression& residual) {
  const double own =
      value_at(place, residual, [](const Derivative&) { return 0; });
  return std::isfinite(own) ? std::max(1.0, std::abs(own)) : 1;
}

// Relative to its terms: an equation may have small factors throughout.
bool says_nothing(const Place& place, const Expression& equation) {
  const double size = size_noticed(place, equation);
  const auto named = equation.derivatives();
  const auto one = some_fields(named, size, 0);
  const auto other = some_fields(named, size, 1);
  double apart = 0, sizes = 0;
  for (const auto& term : equation.terms()) {
    const double a = value_at(place, term, one);
    const double b = value_at(place, term, other);
    apart += a - b;
    sizes += std::abs(a) + std::abs(b);
  }
  return std::abs(apart) <= 1e-12 * sizes;
}

void check_equations(const Problem& problem) {
  for (size_t i = 0; i < problem.equations.size(); ++i) {
    const auto& equation = problem.equations[i];
    const bool nothing = std::ranges::all_of(kParts, [&](double part) {
      return says_nothing(place_on(problem, part, {}), equation);
    });
    if (!nothing) continue;
    throw ProblemError(
        "equations", static_cast<int64_t>(i),
        fmt::format("{} = 0 says nothing of the fields", equation.text()),
        "write what must hold everywhere, such as u_t = u_xx");
  }
}

// What a condition leaves with three choices of fields.
struct Answers {
  double one, other, third;

  Answers(const Problem& problem, const Condition& condition, double size)
      : one(left(problem, condition, size, 0)),
        other(left(problem, condition, size, 1)),
        third(left(problem, condition, size, 2)) {}

  static double left(const Problem& problem, const Condition& condition,
                     double size, int choice) {
    return value_at(place_on(problem, kParts[0], {&condition}),
                    condition.residual,
                    some_fields(condition.derivatives(), size, choice));
  }

  bool know_fields() const {
    return !(std::abs(one - other) <= 1e-12 * (1 + std::abs(one)));
  }
  // Both ask the same of the fields, up to a factor, but for another number.
  bool contradict(const Answers& b) const {
    const double factor = (one - other) / (b.one - b.other);
    const double apart = one - factor * b.one;
    const double nothing =
        1e-9 * (std::abs(one) + std::abs(other) + std::abs(third));
    return std::abs(apart) > nothing &&
           std::abs(third - factor * b.third - apart) < nothing;
  }
};

bool match_the_same(const Condition& a, const Condition& b) {
  return a.is_periodic() && b.is_periodic() && a.variable == b.variable &&
         std::ranges::any_of(a.matched, [&](const Derivative& derivative) {
           return std::ranges::find(b.matched, derivative) != b.matched.end();
         });
}

void check_conditions(const Problem& problem) {
  const auto& all = problem.conditions;
  std::vector<double> sizes;
  for (size_t i = 0; i < all.size(); ++i) {
    const auto& a = all[i];
    sizes.push_back(
        size_noticed(place_on(problem, kParts[0], {&a}), a.residual));
    if (!a.is_periodic() && !Answers(problem, a, sizes[i]).know_fields()) {
      throw ProblemError("conditions", -1,
                         fmt::format("{} says nothing of the fields", a.text),
                         "write what must hold there, such as u = 0");
    }
    for (size_t j = 0; j < i; ++j) {
      const auto& b = all[j];
      const auto fail = [&](const char* relation) {
        throw ProblemError("conditions", -1,
                           fmt::format("{} {} {}", a.text, relation, b.text),
                           "leave one of them out");
      };
      if (match_the_same(a, b)) fail("says the same as");
      if (!a.shares_face_with(b)) continue;
      if (a.residual == b.residual) fail("says the same as");
      if (a.derivatives() != b.derivatives()) continue;
      const double size = std::max(sizes[i], sizes[j]);
      if (Answers(problem, a, size).contradict(Answers(problem, b, size))) {
        fail("contradicts");
      }
    }
  }
}

}  // namespace

void check_sense(const Problem& problem) {
  check_equations(problem);
  check_conditions(problem);
}

}  // namespace propagator::autodiff
