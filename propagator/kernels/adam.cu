#include "propagator/kernels/adam.cuh"
#include "propagator/kernels/warp.cuh"

namespace propagator::kernels {
namespace {

constexpr int kThreads = 256;

// The sum over a block, in a fixed order, for every thread of it.
__device__ double block_sum(double value) {
  __shared__ double sums[kThreads / 32];
  value = warp_sum(value);
  if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = value;
  __syncthreads();
  double sum = 0;
#pragma unroll
  for (int w = 0; w < kThreads / 32; ++w) sum += sums[w];
  return sum;
}

// Each block's share of Σ grad².
template <class Real>
__global__ void __launch_bounds__(kThreads)
    sum_squares(const Real* grad, int64_t n, double* partial) {
  using P = Pack<Real>;
  const int64_t thread = blockIdx.x * int64_t{kThreads} + threadIdx.x;
  const int64_t threads = gridDim.x * int64_t{kThreads}, packs = n / P::kSize;
  double sum = 0;
#pragma unroll 4
  for (int64_t at = thread; at < packs; at += threads) {
    const auto g = load_pack<P>(grad + at * P::kSize);
#pragma unroll
    for (int k = 0; k < P::kSize; ++k) {
      sum += static_cast<double>(g.at[k]) * static_cast<double>(g.at[k]);
    }
  }
  const int64_t rest = packs * P::kSize + thread;
  if (rest < n) {
    sum += static_cast<double>(grad[rest]) * static_cast<double>(grad[rest]);
  }
  sum = block_sum(sum);
  if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}

// What all weights share, in the weights' own type.
template <class Real>
struct Shared {
  Real b1, b2, c1, c2, eps, scale, rate, root, keep;

  __device__ Shared(const AdamConstants& c, const double* varying, double norm)
      : b1(c.beta1),
        b2(c.beta2),
        c1(1 - c.beta1),
        c2(1 - c.beta2),
        eps(c.eps),
        scale(c.clip > 0 && norm > c.clip ? c.share * c.clip / norm : c.share),
        rate(varying[0] / varying[1]),
        root(1 / sqrt(varying[2])),
        keep(1 - varying[0] * c.weight_decay) {}

  __device__ void update(Real& w, Real grad, Real& m, Real& v) const {
    const Real g = scale * grad;
    m = b1 * m + c1 * g;
    v = b2 * v + c2 * g * g;
    w = keep * w - rate * m / (root * sqrt(v) + eps);
  }
};

template <class Real>
__global__ void __launch_bounds__(kThreads)
    adam(Real* w, const Real* grad, Real* m, Real* v, int64_t n,
         AdamConstants constants, const double* varying, double* norm_out,
         const double* partial) {
  double sum = 0;
#pragma unroll
  for (int k = 0; k < kNormParts / kThreads; ++k) {
    sum += partial[k * kThreads + threadIdx.x];
  }
  const double norm = constants.share * sqrt(block_sum(sum));
  if (blockIdx.x == 0 && threadIdx.x == 0) *norm_out = norm;
  const Shared<Real> shared(constants, varying, norm);
  using P = Pack<Real>;
  const int64_t thread = blockIdx.x * int64_t{kThreads} + threadIdx.x;
  const int64_t threads = gridDim.x * int64_t{kThreads}, packs = n / P::kSize;
#pragma unroll 2
  for (int64_t pack = thread; pack < packs; pack += threads) {
    const int64_t at = pack * P::kSize;
    auto pw = load_pack<P>(w + at);
    const auto pg = load_pack<P>(grad + at);
    auto pm = load_pack<P>(m + at);
    auto pv = load_pack<P>(v + at);
#pragma unroll
    for (int k = 0; k < P::kSize; ++k) {
      shared.update(pw.at[k], pg.at[k], pm.at[k], pv.at[k]);
    }
    store_pack(pw, w + at);
    store_pack(pm, m + at);
    store_pack(pv, v + at);
  }
  const int64_t rest = packs * P::kSize + thread;
  if (rest < n) shared.update(w[rest], grad[rest], m[rest], v[rest]);
}

}  // namespace

template <class Real>
void launch_adam(Real* w, const Real* grad, Real* m, Real* v, int64_t n,
                 const AdamConstants& constants, const double* varying,
                 double* norm, double* partial, cudaStream_t stream) {
  sum_squares<<<kNormParts, kThreads, 0, stream>>>(grad, n, partial);
  adam<<<kNormParts, kThreads, 0, stream>>>(w, grad, m, v, n, constants,
                                            varying, norm, partial);
}

template void launch_adam(float*, const float*, float*, float*, int64_t,
                          const AdamConstants&, const double*, double*, double*,
                          cudaStream_t);
template void launch_adam(double*, const double*, double*, double*, int64_t,
                          const AdamConstants&, const double*, double*, double*,
                          cudaStream_t);

}  // namespace propagator::kernels
