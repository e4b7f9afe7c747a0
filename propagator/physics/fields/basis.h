#pragma once

#include <torch/types.h>

namespace propagator::physics {

enum class LaplacianKind { kSpectral, kDifferences };

// An orthonormal basis of functions on the n cells or points of an axis, in
// which the second derivative is diagonal: sines and cosines of a periodic
// axis, or cosines, without flux at its ends, on the middles of cells. With
// second differences in its place the functions are the same, and the
// eigenvalues -(2 sin(k h / 2) / h)².
struct AxisBasis {
  torch::Tensor matrix;       // (n, n): coefficients = matrix values
  torch::Tensor eigenvalues;  // (n), float64

  static AxisBasis periodic(int64_t n, double length, LaplacianKind kind,
                            const torch::TensorOptions& where);
  static AxisBasis without_flux(int64_t n, double length, LaplacianKind kind,
                                const torch::TensorOptions& where);

  // Of (…, n, n), both axes of the same basis.
  torch::Tensor forward(const torch::Tensor& values) const;
  torch::Tensor inverse(const torch::Tensor& coefficients) const;
  torch::Tensor laplacian() const;  // (n, n), float64
};

}  // namespace propagator::physics
