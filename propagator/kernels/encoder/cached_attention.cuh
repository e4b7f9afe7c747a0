#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace propagator::kernels {

// One new token of each case beside the cache of the tokens before it.
struct CachedTokens {
  int64_t batch, heads, capacity, depth;  // B, H, capacity, D
  const float* q;                         // (B, H, D)
  int64_t q_stride;                       // from one case of q to the next
  const float* keys;                      // (B, H, capacity, D)
  const float* values;                    // (B, H, capacity, D)
  float* out;                             // (B, H, D)
};

// 16-byte accesses: pointers at multiples of 16 bytes, q_stride of 4 numbers.
constexpr bool cached_attention_has_depth(int64_t depth) {
  return depth == 16 || depth == 32 || depth == 64 || depth == 128;
}

// The attention of cached_attention.h to the first `length` cached tokens, of
// which there is at least one.
void launch_cached_attention(const CachedTokens& in, int64_t length,
                             cudaStream_t stream);

}  // namespace propagator::kernels
