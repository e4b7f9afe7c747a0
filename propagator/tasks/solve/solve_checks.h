#pragma once

#include <set>

#include "propagator/pde/text/problem.h"
#include "propagator/tasks/solve/solve_points.h"

// What a problem must be like to be solved with its options. Each throws a
// ConfigError that says what it is not.

namespace propagator::tasks {

// So many points along each variable, of the option `key`, are not too many in
// all.
void expect_countable(const pde::Problem& problem, const char* key,
                      int64_t per_axis);
// Of a domain of shapes some are inside.
void expect_some_inside(const pde::Problem& problem, const char* key,
                        int64_t per_axis);
// A model that has derivatives to order `smoothness` (-1: any) has these;
// `needed` says by whom: "the problem needs".
void expect_smooth_enough(const pde::Problem& problem, int64_t smoothness,
                          const std::set<autodiff::Derivative>& named,
                          const char* needed);
// Its formulas are finite at the points where they are evaluated; `tested` are
// those of the test, (N, D).
void expect_finite_formulas(const pde::Problem& problem,
                            const SolvePoints& points,
                            const torch::Tensor& tested);
// Its exact solution, if it has one, solves it.
void expect_exact_solution(const pde::Problem& problem);

}  // namespace propagator::tasks
