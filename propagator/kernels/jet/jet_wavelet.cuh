#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "propagator/kernels/jet/jet_orders.h"

namespace propagator::kernels {

// Rows (M, entries), contiguous; see jet_wavelet.h.
template <class Real>
void launch_jet_wavelet(int64_t entries, const JetOrders& orders, const Real* x,
                        const Real* w1, const Real* w2, Real* y,
                        cudaStream_t stream);

// `dx` may be `dy`. `y`, if not null, takes the values again. `partial`
// (2, jet_wavelet_blocks(entries)) takes the sums for dw₁ and dw₂.
int64_t jet_wavelet_blocks(int64_t entries);
template <class Real>
void launch_jet_wavelet_backward(int64_t entries, const JetOrders& orders,
                                 const Real* x, const Real* dy, const Real* w1,
                                 const Real* w2, Real* dx, Real* y,
                                 double* partial, cudaStream_t stream);
// dw₁ and dw₂ (2) from such sums (2, blocks).
template <class Real>
void launch_wavelet_sums(int64_t blocks, const double* partial, Real* sums,
                         cudaStream_t stream);

}  // namespace propagator::kernels
