#pragma once

#include <torch/types.h>

#include <vector>

#include "propagator/pde/reference/spectral_grid.h"
#include "propagator/pde/text/expression.h"

namespace propagator::pde {

// A residual at P places of each of E elements, by their unknowns u, (E, m):
// values (E, P) and Jacobian (E, P, m). Each derivative in the residual's text
// is a matrix times u; the residual moves along each of them in a direction of
// its own, so that a jet has all the slopes.
class CollocationRows {
 public:
  CollocationRows() = default;  // none
  CollocationRows(const SpectralGrid& grid, const pde::Expression& residual,
                  const SpectralGrid::Places& places, int64_t owner);

  bool empty() const { return symbols_.empty(); }
  int64_t owner() const { return owner_; }

  // `corners`, (E, D): where the elements begin.
  torch::Tensor values(const torch::Tensor& u,
                       const torch::Tensor& corners) const;
  torch::Tensor jacobian(const torch::Tensor& u,
                         const torch::Tensor& corners) const;
  // What the residual, if linear in the derivative, makes of it where all
  // others are zero: (E, P). Undefined if that has no value.
  torch::Tensor alone(const autodiff::Derivative& derivative,
                      const torch::Tensor& corners) const;

 private:
  autodiff::Jet evaluate(const torch::Tensor& u, const torch::Tensor& corners,
                         bool moving) const;

  pde::Expression residual_;
  std::vector<autodiff::Derivative> symbols_;
  std::vector<torch::Tensor> operators_;  // (P, m) each
  torch::Tensor points_;                  // (P, D) from the corner
  int64_t owner_ = 0;
};

}  // namespace propagator::pde
