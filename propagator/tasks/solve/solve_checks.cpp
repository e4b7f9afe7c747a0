#include "propagator/tasks/solve/solve_checks.h"

#include <fmt/format.h>

#include <cmath>

#include "propagator/core/error.h"
#include "propagator/pde/residual/problem_checks.h"
#include "propagator/pde/residual/problem_points.h"

namespace propagator::tasks {
namespace {

// An exact solution is one that leaves no more of equations and conditions,
// beside their terms. Some meet a condition at infinity, not on its face.
constexpr double kExactlySolved = 1e-9;
constexpr double kExactlyMet = 1e-6;

// More would not fit into memory.
constexpr double kMaxPoints = 1e8;

}  // namespace

void expect_countable(const pde::Problem& problem, const char* key,
                      int64_t per_axis) {
  const auto variables = problem.domain.size();
  const double points = std::pow(static_cast<double>(per_axis), variables);
  if (points <= kMaxPoints) return;
  throw ConfigError(key,
                    fmt::format("{} points along each of {} variables are "
                                "{:.0e} in all, more than {:.0e}",
                                per_axis, variables, points, kMaxPoints),
                    fmt::format("lower {}", key));
}

void expect_some_inside(const pde::Problem& problem, const char* key,
                        int64_t per_axis) {
  if (!problem.region) return;
  if (pde::centres_inside(problem, per_axis).size(0) > 0) return;
  throw ConfigError(key,
                    fmt::format("none of the centres of {} cells along each "
                                "variable is inside of the shapes",
                                per_axis),
                    fmt::format("raise {}", key));
}

void expect_smooth_enough(const pde::Problem& problem, int64_t smoothness,
                          const std::set<autodiff::Derivative>& named,
                          const char* needed) {
  for (const auto& derivative : named) {
    if (smoothness < 0 || derivative.order() <= smoothness) continue;
    throw ConfigError(
        "model.name",
        fmt::format("this model has derivatives to order {} only, and {} {}",
                    smoothness, needed, derivative.text(problem.symbols)),
        "choose another model, a spline of a higher degree, or a smoother "
        "kernel");
  }
}

void expect_finite_formulas(const pde::Problem& problem,
                            const SolvePoints& points,
                            const torch::Tensor& tested) {
  const auto expect = [&](const char* list, const std::string& text,
                          const pde::Expression& formula,
                          const torch::Tensor& at) {
    const auto where = pde::where_not_finite(problem, formula, at);
    if (where.empty()) return;
    throw ConfigError(list, fmt::format("{} is not finite at {}", text, where),
                      "change the formula, the domain or the points");
  };
  for (const auto& equation : problem.equations) {
    for (const auto& at : {points.of(data::Split::kTrain), tested}) {
      expect("problem.equations", equation.text() + " = 0", equation, at);
    }
  }
  for (const auto& exact : problem.exact) {
    expect("problem.exact", exact.text(), exact, tested);
  }
  for (const auto& condition : problem.conditions) {
    if (condition.is_periodic()) continue;
    const auto face = points.face_of(condition, 0);
    auto at = face.windows;
    if (face.normals.defined()) {
      const auto normals = face.normals.unsqueeze(1);
      at = torch::cat({at, normals.expand({-1, at.size(1), -1})}, 2);
    }
    expect("problem.conditions", condition.text, condition.residual, at);
  }
}

void expect_exact_solution(const pde::Problem& problem) {
  if (problem.exact.empty()) return;
  const char* hint =
      "correct it, or leave it out: then a numerical one is computed";
  const pde::ExactSolution exact(problem);
  const double violation = exact.residual_of_equations();
  if (!(violation < kExactlySolved)) {
    throw ConfigError(
        "problem.exact",
        fmt::format("problem.exact does not solve the equations: it has a "
                    "residual of {:.3g}, relative to their terms",
                    violation),
        hint);
  }
  for (const auto& condition : problem.conditions) {
    const double off = exact.residual_of(condition);
    if (off < kExactlyMet) continue;
    throw ConfigError(
        "problem.exact",
        fmt::format("problem.exact does not meet the condition {}: it is off "
                    "by {:.3g}, relative to its terms",
                    condition.text, off),
        hint);
  }
}

}  // namespace propagator::tasks
