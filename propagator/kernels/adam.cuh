#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace propagator::kernels {

struct AdamConstants {
  double beta1, beta2, eps, weight_decay;
  double share, clip;  // of the gradient, see GradientScale
};

inline constexpr int kNormParts = 1024;

// One Adam update of n weights (adam.h has the formula) and the norm of the
// gradient. `varying` points at lr, correction1, correction2, `norm` at one
// number and `partial` at kNormParts of them, all on the device.
template <class Real>
void launch_adam(Real* w, const Real* grad, Real* m, Real* v, int64_t n,
                 const AdamConstants& constants, const double* varying,
                 double* norm, double* partial, cudaStream_t stream);

}  // namespace propagator::kernels
