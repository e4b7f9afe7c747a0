#pragma once

#include "propagator/pde/text/problem.h"

namespace propagator::pde {

// What a problem's exact solution leaves of its equations, or of a condition on
// its face: the largest anywhere, relative to the largest of the derivatives
// named and of their fields. NaN if the solution is not finite somewhere.
class ExactSolution {
 public:
  // The problem must outlive it.
  explicit ExactSolution(const pde::Problem& problem);

  double residual_of_equations() const;
  double residual_of(const pde::Condition& condition) const;

 private:
  // Exact fields and some of their derivatives, at points (N, D).
  struct Fields {
    Fields(const pde::Problem& problem,
           const std::set<autodiff::Derivative>& named,
           const torch::Tensor& at);
    torch::Tensor of(const autodiff::Derivative& derivative) const;
    torch::Tensor of(const pde::Expression& formula) const;

    autodiff::DerivativePlan plan;
    torch::Tensor variables, points;  // with normals behind them, and without
    autodiff::Jet jets;
  };
  double unit(const std::set<autodiff::Derivative>& named) const;

  const pde::Problem& problem_;
  Fields inside_;  // all that the problem names, computed once
};

// The first of the points (..., D), or (..., D + S) with normals, at which a
// formula is not finite, whatever the fields there, as "x=0, t=1"; empty if
// there is none. Times beyond the last one count as that.
std::string where_not_finite(const pde::Problem& problem,
                             const pde::Expression& formula,
                             const torch::Tensor& points);

}  // namespace propagator::pde
