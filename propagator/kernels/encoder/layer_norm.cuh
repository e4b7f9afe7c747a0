#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace propagator::kernels {

// y = (x - mean) rstd gamma + beta for each row of x, with
// rstd = 1 / sqrt(variance + eps).
template <class Real>
struct LayerNorm {
  int64_t rows, width;  // N, C
  double eps;
  const Real* x;      // (N, C)
  const Real* gamma;  // (C)
  const Real* beta;   // (C)
  Real* y;            // (N, C)
  Real* mean;         // (N)
  Real* rstd;         // (N)
};

template <class Real>
void launch_layer_norm(const LayerNorm<Real>& in, cudaStream_t stream);

// The gradient:
//   dx = residual + rstd (g - mean_c g - x̂ mean_c(g x̂)),   g = dy gamma
//   dgamma += Σ_n dy x̂,  dbeta += Σ_n dy.
// `residual` is the gradient that reaches x past the norm, or null. dx may be
// residual.
template <class Real>
struct LayerNormGradient {
  int64_t rows, width;
  const Real* dy;        // (N, C)
  const Real* x;         // (N, C)
  const Real* mean;      // (N)
  const Real* rstd;      // (N)
  const Real* gamma;     // (C)
  const Real* residual;  // (N, C) or null
  Real* dx;              // (N, C)
  Real* dgamma;          // (C), added to; null: not wanted
  Real* dbeta;           // (C), added to; null: not wanted
  Real* workspace;  // of layer_norm_workspace numbers, content of no matter

  bool has_sums() const { return dgamma != nullptr || dbeta != nullptr; }
};

template <class Real>
int64_t layer_norm_workspace(int64_t rows, int64_t width);

// First dx, with partial sums left in the workspace; then those of dgamma and
// dbeta, which may run on another stream and only needs to if it has_sums().
template <class Real>
void launch_layer_norm_gradient(const LayerNormGradient<Real>& in,
                                cudaStream_t stream);
template <class Real>
void launch_layer_norm_gradient_sums(const LayerNormGradient<Real>& in,
                                     cudaStream_t stream);

}  // namespace propagator::kernels
