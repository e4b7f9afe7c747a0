#pragma once

#include <cmath>
#include <cstdint>

#include "propagator/kernels/lanes.h"

namespace propagator::kernels {

// y = x̂ ⊙ weight + bias with x̂ = (x - mean) · rstd over each row of C numbers,
// by loops for small rows on one thread. C is a multiple of kLanes.
template <class Real>
struct NormRows {
  static constexpr int64_t kLanes = Lanes<Real>::kCount;
  int64_t rows, width;
  const Real *weight, *bias;

  // x becomes x̂.
  void forward(Real* x, Real* rstd, Real* y, double eps) const {
    for (int64_t r = 0; r < rows; ++r, x += width, y += width) {
      Lanes<Real> sums, squares;
      for (int64_t c = 0; c < width; c += kLanes) sums.add(x + c);
      const Real mean = sums.sum() / width;
      for (int64_t c = 0; c < width; ++c) x[c] -= mean;
      for (int64_t c = 0; c < width; c += kLanes) {
        squares.add_product(x + c, x + c);
      }
      const Real variance = squares.sum() / width;
      const Real factor = 1 / std::sqrt(variance + static_cast<Real>(eps));
      for (int64_t c = 0; c < width; ++c) {
        x[c] *= factor;
        y[c] = x[c] * weight[c] + bias[c];
      }
      rstd[r] = factor;
    }
  }

  // From dy and x̂: dx, and what is added to the gradients of weight and bias,
  // of which a null one is not wanted.
  void backward(const Real* dy, const Real* normed, const Real* rstd, Real* dx,
                Real* d_weight, Real* d_bias) const {
    for (int64_t r = 0; r < rows; ++r) {
      if (d_weight != nullptr) {
        for (int64_t c = 0; c < width; ++c) d_weight[c] += dy[c] * normed[c];
      }
      if (d_bias != nullptr) {
        for (int64_t c = 0; c < width; ++c) d_bias[c] += dy[c];
      }
      for (int64_t c = 0; c < width; ++c) dx[c] = dy[c] * weight[c];
      Lanes<Real> sums, products;
      for (int64_t c = 0; c < width; c += kLanes) {
        sums.add(dx + c);
        products.add_product(dx + c, normed + c);
      }
      const Real mean = sums.sum() / width, slope = products.sum() / width;
      const Real factor = rstd[r];
      for (int64_t c = 0; c < width; ++c) {
        dx[c] = (dx[c] - mean - normed[c] * slope) * factor;
      }
      dy += width, normed += width, dx += width;
    }
  }
};

}  // namespace propagator::kernels
