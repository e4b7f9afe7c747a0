#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "propagator/kernels/jet/jet_orders.h"

namespace propagator::kernels {

struct JetWindows {
  int64_t windows, tokens, width, heads;  // N, T, C, H
  JetOrders orders;
};

// Whether the device at hand can keep a whole window in a block's memory, as
// the launches below need.
template <class Real>
bool jet_attention_fits(const JetWindows& shape);

// The attention of jet_attention.h; q, kv, out and, of their shapes, gradients
// are contiguous, a bias may be null. Every element of the answers is written.
template <class Real>
void launch_jet_attention(const JetWindows& shape, const Real* q,
                          const Real* kv, const Real* bias, Real* out,
                          cudaStream_t stream);

template <class Real>
void launch_jet_attention_backward(const JetWindows& shape, const Real* q,
                                   const Real* kv, const Real* bias,
                                   const Real* grad, Real* dq, Real* dkv,
                                   cudaStream_t stream);

}  // namespace propagator::kernels
