#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace propagator::kernels {

// Softmax over `keys` for each of tokens · heads, in place; scores as in
// prefix_softmax.h.

template <class Real>
void launch_prefix_softmax(Real* scores, int64_t tokens, int keys, int heads,
                           cudaStream_t stream);

template <class Real>
void launch_prefix_softmax_backward(Real* dw, const Real* w, int64_t tokens,
                                    int keys, int heads, cudaStream_t stream);

}  // namespace propagator::kernels
