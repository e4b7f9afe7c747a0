#pragma once

#include <cuda_runtime.h>

#include <cstdint>

// What several .cu files share; not for .cpp files.
namespace propagator::kernels {

constexpr unsigned kWholeWarp = 0xffffffff;

// kCount numbers in one memory access, by default of 16 bytes.
template <class Real, int kCount = 16 / sizeof(Real)>
struct alignas(kCount * sizeof(Real)) Pack {
  static constexpr int kSize = kCount;
  Real at[kSize];
};

template <class P, class Real>
__device__ P load_pack(const Real* from) {
  return *reinterpret_cast<const P*>(from);
}

template <class P, class Real>
__device__ void store_pack(const P& pack, Real* to) {
  *reinterpret_cast<P*>(to) = pack;
}

inline int64_t blocks_for(int64_t n, int64_t size) {
  return (n + size - 1) / size;
}

// Null counts as aligned.
template <class... Pointers>
bool aligned_to_16(Pointers... pointers) {
  return ((reinterpret_cast<uintptr_t>(pointers) | ...) & 15) == 0;
}

__device__ inline void sine_and_cosine(float x, float* s, float* c) {
  sincosf(x, s, c);
}
__device__ inline void sine_and_cosine(double x, double* s, double* c) {
  sincos(x, s, c);
}

// The sum over lanes l, l ^ kFirst, l ^ 2 kFirst, …: over the whole warp, or
// over the lanes that agree modulo kFirst. All of them get the same bits.
template <int kFirst = 1, class Real>
__device__ Real warp_sum(Real value) {
#pragma unroll
  for (int step = 16; step >= kFirst; step /= 2) {
    value += __shfl_xor_sync(kWholeWarp, value, step);
  }
  return value;
}

}  // namespace propagator::kernels
