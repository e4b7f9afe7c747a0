#include "propagator/pde/residual/problem_checks.h"

#include <fmt/ranges.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>

#include "propagator/pde/residual/collocation.h"
#include "propagator/pde/residual/problem_box.h"
#include "propagator/pde/residual/problem_points.h"

namespace propagator::pde {
namespace {

using pde::Condition;
using pde::Expression;
using pde::Problem;
using torch::Tensor;

constexpr int64_t kPerAxis = 16;

// Numbers in place of fields: a formula has one of its own with some of them,
// unless it is the place that is at fault.
constexpr double kSomeFields[] = {0.731, 0.0417, -0.0417, -0.731, 3.17};

// NaN if any is.
double largest(const Tensor& values) {
  return values.abs().max().item<double>();
}

Tensor inside(const Problem& problem) {
  if (!problem.region) return pde::cell_centres(box_of(problem), kPerAxis);
  return points_inside(problem, Sampling::kSobol, kPerAxis, /*seed=*/0,
                       "exact");
}

// Those points, moved to a face, each once; of shapes others, on a face or an
// edge.
Tensor face(const Problem& problem, const Condition& condition, double at) {
  if (problem.region && !condition.is_periodic()) {
    return points_on(problem, condition, Sampling::kSobol, kPerAxis, /*seed=*/0,
                     "exact")
        .variables();
  }
  const int64_t variable = condition.variable;
  auto shape = std::vector<int64_t>(problem.domain.size(), kPerAxis);
  shape.push_back(std::ssize(problem.domain));
  const auto points = pde::cell_centres(box_of(problem), kPerAxis)
                          .view(shape)
                          .narrow(variable, 0, 1)
                          .flatten(0, -2);
  return points.clone().index_fill_(1, torch::tensor({variable}), at);
}

// All that a problem names, and its fields.
std::set<Derivative> all_named(const Problem& problem) {
  auto named = problem.all_derivatives();
  for (int64_t f = 0; f < std::ssize(problem.symbols.fields); ++f) {
    named.insert({f, std::vector<int64_t>(problem.domain.size(), 0)});
  }
  return named;
}

}  // namespace

ExactSolution::Fields::Fields(const Problem& problem,
                              const std::set<Derivative>& named,
                              const Tensor& at)
    : plan(named, std::ssize(problem.domain)),
      variables(at),
      points(at.slice(1, 0, std::ssize(problem.domain))),
      jets(problem.exact_fields(
          Jet::moving(points, plan.directions(at.options()), plan.layout()))) {}

Tensor ExactSolution::Fields::of(const Derivative& derivative) const {
  return plan.derivative(jets, derivative);
}

Tensor ExactSolution::Fields::of(const Expression& formula) const {
  auto environment = plan.environment(points, jets);
  environment.variables = autodiff::coordinates(Jet::constant(variables));
  return formula.evaluate(environment).value();
}

ExactSolution::ExactSolution(const Problem& problem)
    : problem_(problem),
      inside_(problem, all_named(problem), inside(problem)) {}

double ExactSolution::unit(const std::set<Derivative>& named) const {
  double most = 1e-300;
  for (const auto& derivative : named) {
    const Derivative field{derivative.field,
                           std::vector<int64_t>(derivative.orders.size(), 0)};
    most = std::max(
        {most, largest(inside_.of(derivative)), largest(inside_.of(field))});
  }
  return most;
}

double ExactSolution::residual_of_equations() const {
  double most = 0;
  for (const auto& equation : problem_.equations) {
    const double left =
        largest(inside_.of(equation)) / unit(equation.derivatives());
    if (!(left <= most)) most = left;  // also one that is not finite
  }
  return most;
}

double ExactSolution::residual_of(const Condition& condition) const {
  const auto named = condition.derivatives();
  const auto on = [&](double at) {
    return Fields(problem_, named, face(problem_, condition, at));
  };
  const auto here = on(condition.at);
  if (!condition.is_periodic()) {
    return largest(here.of(condition.residual)) / unit(named);
  }
  const auto variable = static_cast<size_t>(condition.variable);
  const auto there = on(problem_.domain[variable].high);
  double most = 0;
  for (const auto& derivative : named) {
    const double off = largest(here.of(derivative) - there.of(derivative)) /
                       unit({derivative});
    if (!(off <= most)) most = off;  // also one that is not finite
  }
  return most;
}

std::string where_not_finite(const Problem& problem, const Expression& formula,
                             const Tensor& points) {
  auto at = points.reshape({-1, points.size(-1)})
                .to(torch::kCPU, torch::kFloat64, false, /*copy=*/true);
  if (const int64_t time = problem.time(); time >= 0) {
    // Windows go on beyond it, formulas do not (Residuals).
    at.select(1, time).clamp_max_(
        problem.domain[static_cast<size_t>(time)].high);
  }
  auto bad = torch::ones({at.size(0)}, torch::kBool);
  const auto named = formula.derivatives();
  for (const double size : kSomeFields) {
    // Each another number, so that a difference is none too.
    const auto field = [&](const Derivative& derivative) {
      const auto place = std::distance(named.begin(), named.find(derivative));
      return Jet::constant(torch::full(
          {at.size(0)}, size * (1 + 0.07 * static_cast<double>(place)),
          torch::kFloat64));
    };
    const auto values =
        formula.evaluate({autodiff::coordinates(Jet::constant(at)), field})
            .value()
            .expand({at.size(0)});
    bad = bad & torch::isfinite(values).logical_not();
  }
  const auto places = bad.nonzero();
  if (places.size(0) == 0) return "";
  const auto first = at[places[0].item<int64_t>()];
  std::vector<std::string> place;
  for (int64_t d = 0; d < std::ssize(problem.domain); ++d) {
    place.push_back(fmt::format(
        "{}={:g}", problem.symbols.variables[static_cast<size_t>(d)],
        first[d].item<double>()));
  }
  return fmt::format("{}", fmt::join(place, ", "));
}

}  // namespace propagator::pde
