#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace propagator::kernels {

// rows (1 + first + second, entries), contiguous; see jet_waves.h.
template <class Real>
void launch_jet_waves(const Real* x, const Real* w1, const Real* w2,
                      int64_t entries, int64_t first, int64_t second, Real* y,
                      cudaStream_t stream);

// `partial` (2, jet_waves_blocks(entries)) takes the sums for dw₁ and dw₂.
int64_t jet_waves_blocks(int64_t entries);
template <class Real>
void launch_jet_waves_backward(const Real* x, const Real* dy, const Real* w1,
                               const Real* w2, int64_t entries, int64_t first,
                               int64_t second, Real* dx, double* partial,
                               cudaStream_t stream);

}  // namespace propagator::kernels
