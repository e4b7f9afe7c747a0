#pragma once

#include <cuda_runtime.h>

#include "propagator/kernels/jet/jet_scan_lane.h"

namespace propagator::kernels {

// The scan of jet_scan.h; all tensors are contiguous. Every element of the
// answers is written.
template <class Real>
void launch_jet_scan(const Scan<Real>& scan, Real* y, cudaStream_t stream);

// From the gradient by y; b and c are those by b and c.
template <class Real>
void launch_jet_scan_backward(const Scan<Real>& scan, const Real* y,
                              const ScanChannelGradients<Real>& channels,
                              Real* b, Real* c, cudaStream_t stream);

}  // namespace propagator::kernels
