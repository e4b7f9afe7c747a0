#pragma once

#include "propagator/autodiff/problem.h"

namespace propagator::tasks {

// What a problem's exact solution leaves of an equation, or of a condition on
// its face: the largest anywhere, relative to the largest of the derivatives
// named and of their fields. NaN if the solution has no number somewhere.
double left_by_exact(const autodiff::Problem& problem,
                     const autodiff::Expression& equation);
double left_by_exact(const autodiff::Problem& problem,
                     const autodiff::Condition& condition);

// The first of the points (..., D) at which a formula has no number though its
// fields have, as "x=0, t=1"; empty if there is none.
std::string where_not_finite(const autodiff::Problem& problem,
                             const autodiff::Expression& formula,
                             const torch::Tensor& points);

}  // namespace propagator::tasks
