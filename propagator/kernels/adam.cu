#include "propagator/kernels/adam.cuh"

namespace propagator::kernels {
namespace {

// What all weights share, in the weights' own type.
template <class Real>
struct Shared {
  Real b1, b2, c1, c2, eps, scale, rate, root, keep;
};

template <class Real>
__device__ void update(Real& w, Real grad, Real& m, Real& v,
                       const Shared<Real>& s) {
  const Real g = s.scale * grad;
  m = s.b1 * m + s.c1 * g;
  v = s.b2 * v + s.c2 * g * g;
  w = s.keep * w - s.rate * m / (s.root * sqrt(v) + s.eps);
}

// 16 bytes at a time: the work is nothing but memory traffic.
template <class Real>
struct alignas(16) Pack {
  static constexpr int kSize = 16 / sizeof(Real);
  Real at[kSize];
};

template <class Real>
__global__ void adam_kernel(Real* w, const Real* grad, Real* m, Real* v,
                            int64_t n, AdamConstants c, const double* varying,
                            const double* grad_scale) {
  const double lr = varying[0];
  const Shared<Real> s{static_cast<Real>(c.beta1),
                       static_cast<Real>(c.beta2),
                       static_cast<Real>(1 - c.beta1),
                       static_cast<Real>(1 - c.beta2),
                       static_cast<Real>(c.eps),
                       static_cast<Real>(*grad_scale),
                       static_cast<Real>(lr / varying[1]),
                       static_cast<Real>(1 / sqrt(varying[2])),
                       static_cast<Real>(1 - lr * c.weight_decay)};
  constexpr int kSize = Pack<Real>::kSize;
  const int64_t thread = blockIdx.x * int64_t{blockDim.x} + threadIdx.x;
  const int64_t at = thread * kSize;
  if (at + kSize <= n) {
    auto pw = *reinterpret_cast<Pack<Real>*>(w + at);
    const auto pg = *reinterpret_cast<const Pack<Real>*>(grad + at);
    auto pm = *reinterpret_cast<Pack<Real>*>(m + at);
    auto pv = *reinterpret_cast<Pack<Real>*>(v + at);
#pragma unroll
    for (int k = 0; k < kSize; ++k) {
      update(pw.at[k], pg.at[k], pm.at[k], pv.at[k], s);
    }
    *reinterpret_cast<Pack<Real>*>(w + at) = pw;
    *reinterpret_cast<Pack<Real>*>(m + at) = pm;
    *reinterpret_cast<Pack<Real>*>(v + at) = pv;
  } else {
    for (int64_t i = at; i < n; ++i) update(w[i], grad[i], m[i], v[i], s);
  }
}

}  // namespace

template <class Real>
void launch_adam(Real* w, const Real* grad, Real* m, Real* v, int64_t n,
                 const AdamConstants& constants, const double* varying,
                 const double* grad_scale, cudaStream_t stream) {
  constexpr int kThreads = 256;
  const int64_t packs = (n + Pack<Real>::kSize - 1) / Pack<Real>::kSize;
  const auto blocks = static_cast<unsigned>((packs + kThreads - 1) / kThreads);
  adam_kernel<<<blocks, kThreads, 0, stream>>>(w, grad, m, v, n, constants,
                                               varying, grad_scale);
}

template void launch_adam(float*, const float*, float*, float*, int64_t,
                          const AdamConstants&, const double*, const double*,
                          cudaStream_t);
template void launch_adam(double*, const double*, double*, double*, int64_t,
                          const AdamConstants&, const double*, const double*,
                          cudaStream_t);

}  // namespace propagator::kernels
