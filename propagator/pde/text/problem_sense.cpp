#include "propagator/pde/text/problem_sense.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>

namespace propagator::pde {
namespace {

// How far places are from the low to the high end of each variable: by golden
// sections, where no wave of a round number has a node.
constexpr double kParts[] = {0.381966011250105, 0.145898033750315,
                             0.763932022500210};

// Values that differ by no more, beside the largest, are no jump: some meet a
// condition at infinity, not on its face.
constexpr double kSameValue = 1e-6;

// One number for each variable and, on an edge, for each component of the
// normal behind them.
using Place = std::vector<double>;

// Puts the place on a shape's edge.
void move_to_edge(const Problem& problem, double part, int64_t shape,
                  Place& place) {
  constexpr int64_t kLooks = 4096;  // as many as the region has taken
  const auto space = problem.space();
  const auto ends = space.size() - 1;
  const auto unit =
      sample_count({std::vector<double>(ends, 0), std::vector<double>(ends, 1)},
                   Sampling::kSobol, kLooks, /*seed=*/0, "edge");
  const auto edge = problem.region->part(shape, unit).edge;
  const auto count = edge.points.size(0);
  if (count == 0) return;
  const auto row = static_cast<int64_t>(part * static_cast<double>(count));
  for (size_t n = 0; n < space.size(); ++n) {
    const auto column = static_cast<int64_t>(n);
    place[static_cast<size_t>(space[n])] =
        edge.points[row][column].item<double>();
    place.push_back(edge.normals[row][column].item<double>());
  }
}

Place place_on(const Problem& problem, double part,
               std::initializer_list<const Condition*> faces) {
  Place place;
  for (const auto& [low, high] : problem.domain) {
    place.push_back(low + part * (high - low));
  }
  for (const auto* face : faces) {
    if (face->is_on_edge()) move_to_edge(problem, part, face->shape, place);
  }
  for (const auto* face : faces) {
    if (!face->is_on_edge())
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

// Whether it names a field, no derivative of it, and nothing more.
bool is_of_one_field(const Condition& condition) {
  const auto named = condition.derivatives();
  return !condition.is_periodic() && named.size() == 1 &&
         named.begin()->order() == 0;
}

// The only value that a condition of one field leaves it there, if it is
// straight in it and has a number.
std::optional<double> value_given(const Place& place,
                                  const Condition& condition) {
  const auto left = [&](double value) {
    return value_at(place, condition.residual,
                    [value](const Derivative&) { return value; });
  };
  const double zero = left(0), factor = left(1) - zero;
  const bool straight =
      std::abs(left(2) - zero - 2 * factor) <= 1e-9 * std::abs(factor);
  const double value = 0 - zero / factor;  // 0, not -0
  if (!straight || !std::isfinite(value)) return std::nullopt;
  return value;
}

// The largest on the face.
double size_given(const Problem& problem, const Condition& condition) {
  double largest = 0;
  for (const double part : kParts) {
    const auto value =
        value_given(place_on(problem, part, {&condition}), condition);
    if (value) largest = std::max(largest, std::abs(*value));
  }
  return largest;
}

std::string text(const Problem& problem, const Place& place) {
  std::vector<std::string> coordinates;
  for (size_t i = 0; i < problem.domain.size(); ++i) {
    coordinates.push_back(
        fmt::format("{}={:g}", problem.symbols.variables[i], place[i]));
  }
  return fmt::format("{}", fmt::join(coordinates, ", "));
}

// Where an edge meets a face of space is not known.
bool may_meet(const Problem& problem, const Condition& a, const Condition& b) {
  const auto is_of_time = [&](const Condition& c) {
    return c.variable >= 0 && c.variable == problem.time();
  };
  return !problem.region || is_of_time(a) || is_of_time(b);
}

// Empty if there is none.
std::string jump_between(const Problem& problem, const Condition& a,
                         const Condition& b) {
  for (const double part : kParts) {
    const auto place = place_on(problem, part, {&a, &b});
    const auto one = value_given(place, a), other = value_given(place, b);
    if (!one || !other) continue;
    const double size =
        std::max({std::abs(*one), std::abs(*other), size_given(problem, a),
                  size_given(problem, b)});
    if (std::abs(*one - *other) <= kSameValue * size) continue;
    return fmt::format(
        "{} and {} meet at {} with {} = {:g} and {:g}: the solution jumps "
        "there, and networks smooth a jump",
        a.text, b.text, text(problem, place),
        a.derivatives().begin()->text(problem.symbols), *one, *other);
  }
  return "";
}

}  // namespace

void check_sense(const Problem& problem) {
  check_equations(problem);
  check_conditions(problem);
}

std::vector<std::string> jumps_of_conditions(const Problem& problem) {
  std::vector<std::string> jumps;
  std::set<std::pair<std::string, std::string>> seen;  // a boundary has faces
  const auto& all = problem.conditions;
  for (auto a = all.begin(); a != all.end(); ++a) {
    if (!is_of_one_field(*a)) continue;
    for (auto b = a + 1; b != all.end(); ++b) {
      if (!is_of_one_field(*b) || a->variable == b->variable ||
          !may_meet(problem, *a, *b) || a->derivatives() != b->derivatives() ||
          seen.contains({a->text, b->text})) {
        continue;
      }
      const auto jump = jump_between(problem, *a, *b);
      if (jump.empty()) continue;
      seen.insert({a->text, b->text});
      jumps.push_back(jump);
    }
  }
  return jumps;
}

std::vector<std::string> bare_parts_of_edge(const Problem& problem) {
  std::vector<std::string> bare;
  if (!problem.region) return bare;
  const auto& region = *problem.region;
  const auto space = problem.space();
  const auto& symbols = problem.symbols;
  const auto named = problem.derivatives();
  const auto by_space = [&](int64_t field) {
    return std::ranges::any_of(named, [&](const Derivative& derivative) {
      return derivative.field == field &&
             std::ranges::any_of(space, [&](int64_t x) {
               return derivative.orders[static_cast<size_t>(x)] > 0;
             });
    });
  };
  const auto look = [&](const std::string& part, auto&& holds_there) {
    for (int64_t f = 0; f < std::ssize(symbols.fields); ++f) {
      const bool is_bare = std::ranges::none_of(
          problem.conditions, [&](const Condition& condition) {
            const auto of = condition.derivatives();
            return holds_there(condition) &&
                   std::ranges::any_of(of, [f](const Derivative& derivative) {
                     return derivative.field == f;
                   });
          });
      if (!is_bare || !by_space(f)) continue;
      bare.push_back(fmt::format(
          "no condition for {} on {}, which is a part of the domain's edge",
          symbols.fields[static_cast<size_t>(f)], part));
    }
  };
  for (int64_t n = 0; n < std::ssize(region.shapes()); ++n) {
    if (region.share_of_part(n) == 0 || region.is_covered(n)) continue;
    look(region.shapes()[static_cast<size_t>(n)].name,
         [n](const Condition& c) { return c.is_on_edge() && c.shape == n; });
  }
  for (int64_t axis = 0; axis < std::ssize(space); ++axis) {
    const int64_t x = space[static_cast<size_t>(axis)];
    const auto& [low, high] = problem.domain[static_cast<size_t>(x)];
    for (const double at : {low, high}) {
      if (region.share_of_face(axis, at == high, true) == 0) continue;
      look(
          fmt::format("{}={:g}", symbols.variables[static_cast<size_t>(x)], at),
          [x, at](const Condition& c) {
            return c.variable == x && c.at == at;
          });
    }
  }
  return bare;
}

}  // namespace propagator::pde
