#pragma once

#include <torch/types.h>

#include <string>
#include <vector>

#include "propagator/pde/reference/spectral_grid.h"
#include "propagator/pde/reference/spectral_plan.h"
#include "propagator/pde/text/problem.h"

namespace propagator::pde {

struct SpectralOptions {
  int64_t per_axis = 16;  // points of an element along each variable
  int64_t elements = 1;   // along the first variable that is not marched
  int64_t per_slab = 6;   // points of a slab along the marched variable
  int64_t slabs = 1;      // along it
  int64_t max_newton = 30;
  double tolerance = 1e-10;  // of Newton's method, beside the largest value
};

// The fields as polynomials of each slab and element.
class SpectralSolution {
 public:
  SpectralSolution(const SpectralPlan& plan, SpectralGrid grid,
                   torch::Tensor values);

  // At points (N, D): (N, F), on the CPU in float64.
  torch::Tensor at(const torch::Tensor& points) const;
  int64_t unknowns() const { return values_.numel(); }

 private:
  std::vector<pde::Interval> domain_;
  SpectralGrid grid_;
  int64_t marched_, divided_;  // variables, or -1
  torch::Tensor values_;       // (slabs, E, m)
};

// Solves a problem by collocation with polynomials, as a classical method to
// compare networks with. The equations hold at Gauss points of elements and,
// along the variable whose conditions all stand at its low end, at Radau
// points of slabs, one slab after the other; Newton's method with damping
// solves each. UsageError if the problem has not one equation for each field,
// NumericalError if its system is singular or Newton's method fails.
SpectralSolution solve_spectrally(const pde::Problem& problem,
                                  const SpectralOptions& options);

}  // namespace propagator::pde
