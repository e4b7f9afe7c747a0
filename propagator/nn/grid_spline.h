#pragma once

#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include <vector>

#include "propagator/autodiff/jet.h"

namespace propagator::nn {

// A field as a tensor product of uniform cubic B-splines over a box:
//   u(x) = Σ_j c_j Π_d B(x_d / h_d - j_d),   h = (high - low) / (n - 3).
// Node j = 0 … n-1 of an axis stands at low + (j - 1) h, so that the first and
// the last are a step outside of the box, and 4 of each axis count at a point.
// u has two continuous derivatives; beyond the box it goes on as the polynomial
// of the nearest cell.
class GridSplineImpl : public torch::nn::Module {
 public:
  GridSplineImpl(std::vector<int64_t> nodes, const std::vector<double>& low,
                 const std::vector<double>& high);

  // Coefficients (n_1, …, n_D, F) at jets (M; N, D) → (M; N, F).
  autodiff::Jet forward(const torch::Tensor& coefficients,
                        const autodiff::Jet& points);

  const std::vector<int64_t>& nodes() const { return nodes_; }
  // The nearest node of each point (N, D) → (N), in the order of memory; those
  // outside of the box count as on its faces.
  torch::Tensor nearest(const torch::Tensor& points) const;
  // Where nodes stand, with the box as [-1, 1]: (n_1, …, n_D, D).
  torch::Tensor places(const torch::TensorOptions& options) const;

 private:
  std::vector<int64_t> nodes_;
  torch::Tensor low_, per_step_;     // (D): where cells begin, and 1/h
  torch::Tensor last_;               // (D), the last cell
  torch::Tensor powers_, constant_;  // B's four pieces: (4, 3) and (4)
};
TORCH_MODULE(GridSpline);

}  // namespace propagator::nn
