#pragma once

#include <cuda_runtime.h>

namespace propagator::kernels {

// B, H, T, D and the mask of causal_attention.h. Products are taken in TF32 or,
// with `tf32` off, as three of them, which is nearly float32.
struct CausalShape {
  int batch, heads, tokens, depth, prefix;
  bool sees_itself, tf32;
};

// Whether there is a kernel for heads of this depth: 16, 32 and 64.
bool causal_depth_supported(int depth);

// A stride counts floats from token to token; batches are T of them apart and
// head h begins at h D, so that q, k, v may be parts of one (B, T, 3 H D).
// Strides are multiples of 4, pointers of 16 bytes, and prefix is at least 1.

// out, (B, T, H D), from q, k, v by the formula of causal_attention.h, and for
// the backward lse_i = log2 Σ_j exp(q_i · (k_j - k0) / √D), (B, H, T). k0 and
// v0 are the key and the value of token prefix - 1.
void launch_causal_attention(const CausalShape& shape, const float* q,
                             const float* k, const float* v, int stride,
                             float* out, int out_stride, float* lse,
                             cudaStream_t stream);

// dq, dk, dv from dout, which has the stride of out. Every element of them is
// written, in an order of sums that does not vary. `delta`, (B, H, T), is
// scratch space: it receives Σ_d dout_d (out_d - v0_d).
void launch_causal_attention_backward(const CausalShape& shape, const float* q,
                                      const float* k, const float* v,
                                      int stride, const float* out,
                                      const float* dout, int out_stride,
                                      const float* lse, float* delta, float* dq,
                                      float* dk, float* dv, int grad_stride,
                                      cudaStream_t stream);

}  // namespace propagator::kernels
