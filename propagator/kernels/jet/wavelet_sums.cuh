#pragma once

#include "propagator/kernels/warp.cuh"

// What the kernels of jet_wavelet.cu and jet_wavelet_dot.cu share.
namespace propagator::kernels {

// The sums of a block of kThreads for dw₁ and dw₂ go to `partial`
// (2, gridDim.x), which launch_wavelet_sums adds up.
template <int kThreads>
__device__ void store_wavelet_sums(double sum1, double sum2, double* partial) {
  __shared__ double sums[2][kThreads / 32];
  sum1 = warp_sum(sum1);
  sum2 = warp_sum(sum2);
  if (threadIdx.x % 32 == 0) {
    sums[0][threadIdx.x / 32] = sum1;
    sums[1][threadIdx.x / 32] = sum2;
  }
  __syncthreads();
  if (threadIdx.x < 2) {
    double total = 0;
    for (int w = 0; w < kThreads / 32; ++w) total += sums[threadIdx.x][w];
    partial[threadIdx.x * gridDim.x + blockIdx.x] = total;
  }
}

}  // namespace propagator::kernels
