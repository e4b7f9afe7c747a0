#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "propagator/kernels/jet/jet_orders.h"

namespace propagator::kernels {

struct JetCross {
  int64_t points, tokens, width, depth;  // N, T, C, D
  JetOrders orders;
  bool tf32;               // products may be taken in TF32
  const float *q, *k, *v;  // (M, N, C), (T, C), (T, C)
  int64_t heads() const { return width / depth; }
};

// Whether there are kernels for such heads and orders.
bool jet_cross_attention_has(int64_t depth, const JetOrders& orders);

// The attention of jet_cross_attention.h; all tensors are contiguous and at 16
// bytes. Writes out (M, N, C) and sums (N, H, M): log Σ exp s_0, then centres.
void launch_jet_cross_attention(const JetCross& of, float* out, float* sums,
                                cudaStream_t stream);

// The gradients by k and v are summed over so many parts of the points.
int64_t jet_cross_attention_parts(const JetCross& of);

// `taken`, as sums, is room for what passes between the two launches. Writes dq
// and `parts`, (P, 2, T, C) with keys before values.
struct JetCrossBackward {
  const float *out, *sums, *grad;
  float *taken, *dq, *parts;
};
void launch_jet_cross_attention_backward(const JetCross& of,
                                         const JetCrossBackward& with,
                                         cudaStream_t stream);

}  // namespace propagator::kernels
