#include "propagator/kernels/jet_waves.cuh"
#include "propagator/kernels/warp.cuh"

namespace propagator::kernels {
namespace {

constexpr int kThreads = 256;

__device__ void sine_and_cosine(float x, float* s, float* c) {
  sincosf(x, s, c);
}
__device__ void sine_and_cosine(double x, double* s, double* c) {
  sincos(x, s, c);
}

template <class Real>
__global__ void forward(const Real* x, const Real* w1, const Real* w2,
                        int64_t n, int64_t first, int64_t second, Real* y) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= n) return;
  Real s, c;
  sine_and_cosine(x[i], &s, &c);
  const Real f = *w1 * s + *w2 * c, g = *w1 * c - *w2 * s;
  y[i] = f;
  for (int64_t r = 1; r <= first; ++r) {
    const Real x1 = x[r * n + i];
    y[r * n + i] = g * x1;
    if (r <= second) {
      const int64_t at = (r + first) * n + i;
      y[at] = g * x[at] - Real(0.5) * f * x1 * x1;
    }
  }
}

template <class Real>
__global__ void backward(const Real* x, const Real* dy, const Real* w1,
                         const Real* w2, int64_t n, int64_t first,
                         int64_t second, Real* dx, double* partial) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  double sum1 = 0, sum2 = 0;
  if (i < n) {
    Real s, c;
    sine_and_cosine(x[i], &s, &c);
    const Real f = *w1 * s + *w2 * c, g = *w1 * c - *w2 * s;
    Real a = 0, b = 0;
    for (int64_t r = 1; r <= first; ++r) {
      const Real x1 = x[r * n + i], d1 = dy[r * n + i];
      Real e1 = g * d1;
      a += d1 * x1;
      if (r <= second) {
        const int64_t at = (r + first) * n + i;
        const Real d2 = dy[at];
        a += d2 * x[at];
        b += d2 * x1 * x1;
        e1 -= f * x1 * d2;
        dx[at] = g * d2;
      }
      dx[r * n + i] = e1;
    }
    const Real d = dy[i] - Real(0.5) * b;
    dx[i] = g * d - f * a;
    sum1 = d * s + a * c;
    sum2 = d * c - a * s;
  }
  __shared__ double sums[2][kThreads / 32];
  for (int step = 16; step > 0; step /= 2) {
    sum1 += __shfl_down_sync(kWholeWarp, sum1, step);
    sum2 += __shfl_down_sync(kWholeWarp, sum2, step);
  }
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

}  // namespace

int64_t jet_waves_blocks(int64_t entries) {
  return blocks_for(entries, kThreads);
}

template <class Real>
void launch_jet_waves(const Real* x, const Real* w1, const Real* w2,
                      int64_t entries, int64_t first, int64_t second, Real* y,
                      cudaStream_t stream) {
  forward<<<jet_waves_blocks(entries), kThreads, 0, stream>>>(
      x, w1, w2, entries, first, second, y);
}

template <class Real>
void launch_jet_waves_backward(const Real* x, const Real* dy, const Real* w1,
                               const Real* w2, int64_t entries, int64_t first,
                               int64_t second, Real* dx, double* partial,
                               cudaStream_t stream) {
  backward<<<jet_waves_blocks(entries), kThreads, 0, stream>>>(
      x, dy, w1, w2, entries, first, second, dx, partial);
}

template void launch_jet_waves(const float*, const float*, const float*,
                               int64_t, int64_t, int64_t, float*, cudaStream_t);
template void launch_jet_waves(const double*, const double*, const double*,
                               int64_t, int64_t, int64_t, double*,
                               cudaStream_t);
template void launch_jet_waves_backward(const float*, const float*,
                                        const float*, const float*, int64_t,
                                        int64_t, int64_t, float*, double*,
                                        cudaStream_t);
template void launch_jet_waves_backward(const double*, const double*,
                                        const double*, const double*, int64_t,
                                        int64_t, int64_t, double*, double*,
                                        cudaStream_t);

}  // namespace propagator::kernels
