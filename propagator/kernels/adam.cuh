#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace propagator::kernels {

struct AdamConstants {
  double beta1, beta2, eps, weight_decay;
};

// One Adam update of n weights (adam.h has the formula). `varying` points at
// lr, correction1, correction2 and `grad_scale` at one number, on the device.
template <class Real>
void launch_adam(Real* w, const Real* grad, Real* m, Real* v, int64_t n,
                 const AdamConstants& constants, const double* varying,
                 const double* grad_scale, cudaStream_t stream);

}  // namespace propagator::kernels
