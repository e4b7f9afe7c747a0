#include "propagator/pde/residual/condition_value.h"

#include <torch/utils.h>

#include <algorithm>
#include <cmath>

#include "propagator/pde/residual/problem_box.h"
#include "propagator/pde/residual/problem_points.h"

namespace propagator::pde {
namespace {

using torch::Tensor;

// Points at which a condition is looked at to see what form it has.
constexpr int64_t kLooks = 5;
constexpr double kSame = 1e-9;
// And at which the size of what is under a root, relative to its largest.
constexpr int64_t kFineLooks = 41;
constexpr double kNearZero = 1e-3;
// Derivatives that a smooth function must have at both ends of a period.
constexpr int64_t kSmooth = 3;

Tensor moved_to(Tensor points, int64_t variable, double value) {
  points.select(1, variable).fill_(value);
  return points;
}

// Those inside, where a formula holds at a time; a face is taken whole.
Tensor kept(const Problem& problem, const Tensor& points, int64_t variable) {
  if (!problem.region || variable != problem.time()) return points;
  const auto rows = rows_inside(problem, points);
  return rows.size(0) == 0 ? points : points.index_select(0, rows);
}

// A grid with the ends of the other variables on it.
Tensor grid_where(const Problem& problem, const Condition& face,
                  int64_t per_axis) {
  return kept(problem,
              moved_to(sample(box_of(problem), Sampling::kGrid, per_axis,
                              /*seed=*/0, /*name=*/""),
                       face.variable, face.at),
              face.variable);
}

// What a condition leaves where its only derivative has this value.
Jet left_of(const Condition& condition, const std::vector<Jet>& variables,
            double value) {
  return condition.residual.evaluate(
      {variables, [&](const Derivative&) {
         return Jet::constant(
             torch::full({}, value, variables.front().rows().options()));
       }});
}

// The factor of the derivative in the residual, if that is constant and the
// residual is straight in it; else 0.
double factor_of(const Problem& problem, const Condition& condition) {
  const auto variables = autodiff::coordinates(
      Jet::constant(points_where(problem, condition.variable, condition.at)));
  const auto zero = left_of(condition, variables, 0).value();
  const auto one = left_of(condition, variables, 1).value() - zero;
  const auto two = left_of(condition, variables, 2).value() - zero;
  const double factor = one.flatten()[0].item<double>();
  const bool straight =
      ((one - factor).abs().max().item<double>() < kSame * std::abs(factor)) &&
      ((two - 2 * factor).abs().max().item<double>() <
       kSame * std::abs(factor));
  return straight ? factor : 0;
}

// Whether a formula has all derivatives that the problem names, everywhere on
// the face.
bool has_derivatives(const Problem& problem, const Condition& face,
                     const Expression& formula) {
  const autodiff::DerivativePlan plan(problem.all_derivatives(),
                                      std::ssize(problem.domain));
  const auto points = grid_where(problem, face, kLooks);
  const auto jets = formula.evaluate(
      {autodiff::coordinates(Jet::moving(
           points, plan.directions(points.options()), plan.layout())),
       {}});
  return torch::isfinite(jets.rows()).all().item<bool>();
}

// Whether a formula on a face is the same at both ends of a period.
bool agrees(const Problem& problem, const Condition& face, int64_t along,
            const Expression& formula) {
  const auto& [low, high] = problem.domain[static_cast<size_t>(along)];
  const auto points = points_where(problem, face.variable, face.at);
  const auto value_at = [&](double end) {
    const auto moved = moved_to(points.clone(), along, end);
    return formula.evaluate({autodiff::coordinates(Jet::constant(moved)), {}})
        .value();
  };
  const auto here = value_at(low);
  const double apart = (value_at(high) - here).abs().max().item<double>();
  return apart <= kSame * (1 + here.abs().max().item<double>());
}

// Whether a formula for a field is the same at both ends of a periodic
// condition, with the derivatives that it matches.
bool is_periodic(const Problem& problem, const Condition& face,
                 const Condition& condition, const Expression& formula,
                 int64_t field) {
  for (const auto& matched : condition.matched) {
    if (matched.field != field) continue;
    auto derivative = formula;
    for (int64_t x = 0; x < std::ssize(problem.domain); ++x) {
      for (int64_t k = 0; k < matched.orders[static_cast<size_t>(x)]; ++k) {
        derivative = derivative.derivative(x);
      }
    }
    if (!agrees(problem, face, condition.variable, derivative)) return false;
  }
  return true;
}

// Whether a formula takes a root of what comes to zero, or close to it, on the
// face: sqrt(x^2) has a corner too.
bool has_root_of_zero(const Problem& problem, const Condition& face,
                      const Expression& formula) {
  const auto variables = autodiff::coordinates(
      Jet::constant(grid_where(problem, face, kFineLooks)));
  return std::ranges::any_of(
      formula.under_roots(), [&](const Expression& radicand) {
        const auto size = radicand.evaluate({variables, {}}).value().abs();
        return !(size.min() > kNearZero * size.max()).item<bool>();
      });
}

// Whether an answer that has the formula for ever has it without a corner.
// Equations see none: it lies between points.
bool stays_smooth(const Problem& problem, const Condition& face,
                  const Expression& formula, int64_t field) {
  return !formula.has_corners() && !has_root_of_zero(problem, face, formula) &&
         std::ranges::all_of(problem.conditions, [&](const Condition& c) {
           return !c.is_periodic() ||
                  is_periodic(problem, face, c, formula, field);
         });
}

}  // namespace

bool goes_around(const Problem& problem, const Condition& face,
                 const Condition& periodic, const Expression& formula) {
  auto derivative = formula;
  for (int64_t order = 0; order <= kSmooth; ++order) {
    if (!agrees(problem, face, periodic.variable, derivative)) return false;
    derivative = derivative.derivative(periodic.variable);
  }
  return true;
}

Tensor points_where(const Problem& problem, int64_t variable, double value) {
  return kept(problem,
              moved_to(cell_centres(box_of(problem), kLooks), variable, value),
              variable);
}

std::optional<ConditionValue> value_of(const Problem& problem,
                                       const Condition& condition,
                                       bool with_corners) {
  const double factor = factor_of(problem, condition);
  if (factor == 0) return std::nullopt;
  const auto derivatives = condition.derivatives();
  const auto rest = condition.residual.without(derivatives);
  const bool may_be_kept =
      has_derivatives(problem, condition, rest) &&
      (with_corners ||
       stays_smooth(problem, condition, rest, derivatives.begin()->field));
  if (!may_be_kept) return std::nullopt;
  return ConditionValue{factor, rest};
}

}  // namespace propagator::pde
