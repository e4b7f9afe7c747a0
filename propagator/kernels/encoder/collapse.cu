#include "propagator/kernels/encoder/collapse.cuh"
#include "propagator/kernels/warp.cuh"

namespace propagator::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;

// A warp for each row.
template <class Real>
__global__ void __launch_bounds__(kThreads)
    collapse(const Real* w, const Real* encoding, int64_t rows, int64_t places,
             int64_t features, Real* sums, Real* products) {
  const int64_t row = blockIdx.x * int64_t{kWarps} + threadIdx.x / 32;
  if (row >= rows) return;
  const Real* mine = w + row * features;
  const Real* code = encoding + row % places * features;
  Real sum = 0, product = 0;
#pragma unroll 4
  for (int64_t f = threadIdx.x % 32; f < features; f += 32) {
    sum += mine[f];
    product += mine[f] * code[f];
  }
  sum = warp_sum(sum);
  product = warp_sum(product);
  if (threadIdx.x % 32 == 0) {
    sums[row] = sum;
    products[row] = product;
  }
}

template <class Real>
__global__ void __launch_bounds__(kThreads)
    backward(Real* dw, const Real* dsums, const Real* doffset,
             const Real* encoding, int64_t rows, int64_t places,
             int64_t features) {
  const int64_t row = blockIdx.x * int64_t{kWarps} + threadIdx.x / 32;
  if (row >= rows) return;
  Real* mine = dw + row * features;
  const Real* code = encoding + row % places * features;
  const Real same = dsums[row], each = doffset[row / places];
#pragma unroll 4
  for (int64_t f = threadIdx.x % 32; f < features; f += 32) {
    mine[f] += same + each * code[f];
  }
}

unsigned blocks_for(int64_t rows) {
  return static_cast<unsigned>((rows + kWarps - 1) / kWarps);
}

}  // namespace

template <class Real>
void launch_collapse(const Real* w, const Real* encoding, int64_t outputs,
                     int64_t places, int64_t features, Real* sums,
                     Real* products, cudaStream_t stream) {
  const int64_t rows = outputs * places;
  collapse<<<blocks_for(rows), kThreads, 0, stream>>>(w, encoding, rows, places,
                                                      features, sums, products);
}

template <class Real>
void launch_collapse_backward(Real* dw, const Real* dsums, const Real* doffset,
                              const Real* encoding, int64_t outputs,
                              int64_t places, int64_t features,
                              cudaStream_t stream) {
  const int64_t rows = outputs * places;
  backward<<<blocks_for(rows), kThreads, 0, stream>>>(
      dw, dsums, doffset, encoding, rows, places, features);
}

template void launch_collapse(const float*, const float*, int64_t, int64_t,
                              int64_t, float*, float*, cudaStream_t);
template void launch_collapse(const double*, const double*, int64_t, int64_t,
                              int64_t, double*, double*, cudaStream_t);
template void launch_collapse_backward(float*, const float*, const float*,
                                       const float*, int64_t, int64_t, int64_t,
                                       cudaStream_t);
template void launch_collapse_backward(double*, const double*, const double*,
                                       const double*, int64_t, int64_t, int64_t,
                                       cudaStream_t);

}  // namespace propagator::kernels
