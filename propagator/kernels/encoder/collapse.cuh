#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace propagator::kernels {

// For each of outputs · places rows of `features` numbers of w: their sum, and
// their product with the place's row of `encoding` (places, features).
template <class Real>
void launch_collapse(const Real* w, const Real* encoding, int64_t outputs,
                     int64_t places, int64_t features, Real* sums,
                     Real* products, cudaStream_t stream);

// dw += dsums[o, p] + doffset[o] encoding[p, f].
template <class Real>
void launch_collapse_backward(Real* dw, const Real* dsums, const Real* doffset,
                              const Real* encoding, int64_t outputs,
                              int64_t places, int64_t features,
                              cudaStream_t stream);

}  // namespace propagator::kernels
