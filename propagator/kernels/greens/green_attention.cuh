#pragma once

#include <cuda_runtime.h>

#include "propagator/kernels/greens/green_formula.h"

namespace propagator::kernels {

// Attention of green_attention.h in float32. q and out are (B, H, Tq, D), k and
// v (B, H, Tk, D), contiguous, at 16 bytes, with D = 16, 32 or 64; `scale` is
// 1/√D of the heads before they were filled up to that. Places are (B, 4,
// length), in the order of their times if the form is_causal, and parameters
// (4). Products are taken in TF32 or, with `tf32` off,
// as three of them, which is nearly float32.
struct GreenShape {
  int batch, heads, queries, keys, depth;
  int query_length, key_length;  // of the places
  float scale;
  bool tf32, learns;
  GreenSettings green;
};

struct GreenPointers {
  const float *q, *k, *v;
  const float *query_places, *key_places, *parameters;
};

bool green_depth_supported(int depth);

// out, and lse (B, H, Tq), the log₂ of Σ_j exp of the scores with keys less the
// first one.
void launch_green_attention(const GreenShape& shape, const GreenPointers& in,
                            float* out, float* lse, cudaStream_t stream);

// The rows of `parts` below.
int green_parts(const GreenShape& shape);

// dq, dk, dv from dout, every element of them; `delta` (B, H, Tq) is scratch
// space. If the shape `learns`, the gradients of the parameters are the sums of
// the columns of `parts`, (green_parts, 4).
struct GreenBackward {
  const float *out, *dout, *lse;
  float *delta, *dq, *dk, *dv, *parts;
};
void launch_green_attention_backward(const GreenShape& shape,
                                     const GreenPointers& in,
                                     const GreenBackward& back,
                                     cudaStream_t stream);

}  // namespace propagator::kernels
