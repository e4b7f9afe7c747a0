#include "propagator/tasks/problem_checks.h"

#include <fmt/ranges.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>

#include "propagator/data/collocation.h"
#include "propagator/tasks/problem_box.h"

namespace propagator::tasks {
namespace {

using autodiff::Condition;
using autodiff::Derivative;
using autodiff::Environment;
using autodiff::Expression;
using autodiff::Jet;
using autodiff::Problem;
using torch::Tensor;

constexpr int64_t kPerAxis = 16;

// A number in place of a field: of no formula's zeros or poles, one hopes.
constexpr double kSomeField = 0.731;

// NaN if any is.
double largest(const Tensor& values) {
  return values.abs().max().item<double>();
}

// The exact fields and some of their derivatives, at points (N, D).
class ExactFields {
 public:
  ExactFields(const Problem& problem, const std::set<Derivative>& named,
              const Tensor& points)
      : plan_(named, std::ssize(problem.domain)),
        points_(points),
        fields_(problem.exact_fields(Jet::moving(
            points, plan_.directions(points.options()), plan_.layout()))) {}

  Tensor of(const Derivative& derivative) const {
    return plan_.derivative(fields_, derivative);
  }
  Tensor of(const Expression& formula) const {
    return formula.evaluate(plan_.environment(points_, fields_)).value();
  }

 private:
  autodiff::DerivativePlan plan_;
  Tensor points_;
  Jet fields_;
};

Tensor inside(const Problem& problem) {
  return data::cell_centres(box_of(problem), kPerAxis);
}

// The points inside, moved to a face.
Tensor face(const Problem& problem, int64_t variable, double at) {
  const auto points = inside(problem);
  points.select(1, variable).fill_(at);
  return points;
}

// The largest of some derivatives in the domain, and of their fields: a unit
// for what is left.
double unit(const Problem& problem, std::set<Derivative> named) {
  for (size_t f = 0; f < problem.symbols.fields.size(); ++f) {
    const auto field = static_cast<int64_t>(f);
    const bool is_named = std::ranges::any_of(
        named,
        [&](const auto& derivative) { return derivative.field == field; });
    if (!is_named) continue;
    named.insert({field, std::vector<int64_t>(problem.domain.size(), 0)});
  }
  const ExactFields exact(problem, named, inside(problem));
  double most = 1e-300;
  for (const auto& derivative : named) {
    most = std::max(most, largest(exact.of(derivative)));
  }
  return most;
}

}  // namespace

double left_by_exact(const Problem& problem, const Expression& equation) {
  const auto named = equation.derivatives();
  const ExactFields exact(problem, named, inside(problem));
  return largest(exact.of(equation)) / unit(problem, named);
}

double left_by_exact(const Problem& problem, const Condition& condition) {
  const auto named = condition.derivatives();
  const auto on = [&](double at) {
    return ExactFields(problem, named, face(problem, condition.variable, at));
  };
  const auto here = on(condition.at);
  if (!condition.is_periodic()) {
    return largest(here.of(condition.residual)) / unit(problem, named);
  }
  const auto variable = static_cast<size_t>(condition.variable);
  const auto there = on(problem.domain[variable].high);
  double most = 0;
  for (const auto& derivative : named) {
    const double off = largest(here.of(derivative) - there.of(derivative)) /
                       unit(problem, {derivative});
    if (!(off <= most)) most = off;  // also one that is no number
  }
  return most;
}

std::string where_not_finite(const Problem& problem, const Expression& formula,
                             const Tensor& points) {
  const auto at =
      points.reshape({-1, points.size(-1)}).to(torch::kCPU, torch::kFloat64);
  const auto some = torch::full({at.size(0)}, kSomeField, torch::kFloat64);
  const Environment environment{
      autodiff::coordinates(Jet::constant(at)),
      [&](const Derivative&) { return Jet::constant(some); }};
  const auto values = formula.evaluate(environment).value().expand_as(some);
  const auto bad = torch::isfinite(values).logical_not().nonzero();
  if (bad.size(0) == 0) return "";
  const auto first = at[bad[0].item<int64_t>()];
  std::vector<std::string> place;
  for (int64_t d = 0; d < at.size(1); ++d) {
    place.push_back(fmt::format(
        "{}={:g}", problem.symbols.variables[static_cast<size_t>(d)],
        first[d].item<double>()));
  }
  return fmt::format("{}", fmt::join(place, ", "));
}

}  // namespace propagator::tasks
