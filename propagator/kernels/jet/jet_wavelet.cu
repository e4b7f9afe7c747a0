#include "propagator/kernels/jet/jet_wavelet.cuh"
#include "propagator/kernels/jet/wavelet_sums.cuh"

namespace propagator::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kEntriesOfBlock = 4 * kThreads;

// The values of a thread's entries, with F = w₁ sin + w₂ cos and G = F'.
template <class P, class Real>
struct Waves {
  Real s[P::kSize], c[P::kSize], f[P::kSize], g[P::kSize];

  __device__ Waves(const P& x, Real w1, Real w2) {
#pragma unroll
    for (int n = 0; n < P::kSize; ++n) {
      sine_and_cosine(x.at[n], &s[n], &c[n]);
      f[n] = w1 * s[n] + w2 * c[n];
      g[n] = w1 * c[n] - w2 * s[n];
    }
  }
};

// Calls `work(first entry)` for each pack that is this thread's.
template <class P, class Work>
__device__ void for_packs(int64_t entries, Work&& work) {
  int64_t at = blockIdx.x * kEntriesOfBlock + threadIdx.x * P::kSize;
#pragma unroll
  for (int k = 0; k < kEntriesOfBlock / kThreads / P::kSize; ++k) {
    if (at < entries) work(at);
    at += kThreads * P::kSize;
  }
}

// y_2 = G x_2 - F Σ ±x_1² / 2.
template <class P, class Real>
__device__ P second_order(const Waves<P, Real>& waves, const P& x2,
                          const P& squares) {
  P y;
#pragma unroll
  for (int k = 0; k < P::kSize; ++k) {
    y.at[k] = waves.g[k] * x2.at[k] - Real(0.5) * waves.f[k] * squares.at[k];
  }
  return y;
}

template <class P, class Real>
__global__ void forward(int64_t n, JetOrders orders, const Real* x,
                        const Real* w1, const Real* w2, Real* y) {
  for_packs<P>(n, [&](int64_t i) {
    const Waves<P, Real> waves(load_pack<P>(x + i), *w1, *w2);
    P out, x2, squares;
#pragma unroll
    for (int k = 0; k < P::kSize; ++k) out.at[k] = waves.f[k];
    store_pack(out, y + i);
    for (int64_t r = 1; r <= orders.first; ++r) {
      const auto x1 = load_pack<P>(x + r * n + i);
#pragma unroll
      for (int k = 0; k < P::kSize; ++k) out.at[k] = waves.g[k] * x1.at[k];
      store_pack(out, y + r * n + i);
      if (r > orders.second) continue;
      const int64_t at = orders.second_row(r) * n + i;
      if (orders.opens(r)) {
        x2 = load_pack<P>(x + at);
        squares = {};
      }
      const Real sign = orders.sign(r);
#pragma unroll
      for (int k = 0; k < P::kSize; ++k) {
        squares.at[k] += sign * x1.at[k] * x1.at[k];
      }
      if (orders.closes(r)) {
        store_pack(second_order(waves, x2, squares), y + at);
      }
    }
  });
}

// Also writes what `forward` does to `y`, if kValues. A row of x_2 is read
// before and written after all directions that share it: dx may be dy.
template <bool kValues, class P, class Real>
__global__ void backward(int64_t n, JetOrders orders, const Real* x,
                         const Real* dy, const Real* w1, const Real* w2,
                         Real* dx, Real* y, double* partial) {
  double sum1 = 0, sum2 = 0;
  for_packs<P>(n, [&](int64_t i) {
    const Waves<P, Real> waves(load_pack<P>(x + i), *w1, *w2);
    P out, x2, d2, squares;
    if constexpr (kValues) {
#pragma unroll
      for (int k = 0; k < P::kSize; ++k) out.at[k] = waves.f[k];
      store_pack(out, y + i);
    }
    Real a[P::kSize] = {}, b[P::kSize] = {};
    for (int64_t r = 1; r <= orders.first; ++r) {
      const auto x1 = load_pack<P>(x + r * n + i);
      const auto d1 = load_pack<P>(dy + r * n + i);
      P e1;
#pragma unroll
      for (int k = 0; k < P::kSize; ++k) {
        a[k] += d1.at[k] * x1.at[k];
        e1.at[k] = waves.g[k] * d1.at[k];
        if constexpr (kValues) out.at[k] = waves.g[k] * x1.at[k];
      }
      if constexpr (kValues) store_pack(out, y + r * n + i);
      if (r <= orders.second) {
        const int64_t at = orders.second_row(r) * n + i;
        if (orders.opens(r)) {
          x2 = load_pack<P>(x + at);
          d2 = load_pack<P>(dy + at);
          squares = {};
#pragma unroll
          for (int k = 0; k < P::kSize; ++k) a[k] += d2.at[k] * x2.at[k];
        }
        const Real sign = orders.sign(r);
#pragma unroll
        for (int k = 0; k < P::kSize; ++k) {
          const Real square = sign * x1.at[k] * x1.at[k];
          squares.at[k] += square;
          b[k] += d2.at[k] * square;
          e1.at[k] -= waves.f[k] * sign * x1.at[k] * d2.at[k];
          out.at[k] = waves.g[k] * d2.at[k];
        }
        if (orders.closes(r)) {
          store_pack(out, dx + at);
          if constexpr (kValues) {
            store_pack(second_order(waves, x2, squares), y + at);
          }
        }
      }
      store_pack(e1, dx + r * n + i);
    }
    const auto d0 = load_pack<P>(dy + i);
#pragma unroll
    for (int k = 0; k < P::kSize; ++k) {
      const Real d = d0.at[k] - Real(0.5) * b[k];
      out.at[k] = waves.g[k] * d - waves.f[k] * a[k];
      sum1 += d * waves.s[k] + a[k] * waves.c[k];
      sum2 += d * waves.c[k] - a[k] * waves.s[k];
    }
    store_pack(out, dx + i);
  });
  store_wavelet_sums<kThreads>(sum1, sum2, partial);
}

// Block b adds up the partial sums of w_b, in a fixed order.
template <class Real>
__global__ void __launch_bounds__(kThreads)
    add_wavelet_sums(int64_t blocks, const double* partial, Real* sums) {
  double sum = 0;
  for (int64_t k = threadIdx.x; k < blocks; k += kThreads) {
    sum += partial[blockIdx.x * blocks + k];
  }
  sum = warp_sum(sum);
  __shared__ double of_warps[kThreads / 32];
  if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x > 0) return;
  for (int w = 1; w < kThreads / 32; ++w) sum += of_warps[w];
  sums[blockIdx.x] = static_cast<Real>(sum);
}

// Calls `launch` with the widest pack that fits all rows.
template <class Real, class Launch, class... Pointers>
void with_pack(int64_t entries, const Launch& launch, Pointers... pointers) {
  if (entries % Pack<Real>::kSize == 0 && aligned_to_16(pointers...)) {
    launch(Pack<Real>());
  } else {
    launch(Pack<Real, 1>());
  }
}

}  // namespace

int64_t jet_wavelet_blocks(int64_t entries) {
  return blocks_for(entries, kEntriesOfBlock);
}

template <class Real>
void launch_jet_wavelet(int64_t entries, const JetOrders& orders, const Real* x,
                        const Real* w1, const Real* w2, Real* y,
                        cudaStream_t stream) {
  const auto launch = [&](auto pack) {
    forward<decltype(pack)>
        <<<jet_wavelet_blocks(entries), kThreads, 0, stream>>>(entries, orders,
                                                               x, w1, w2, y);
  };
  with_pack<Real>(entries, launch, x, y);
}

template <class Real>
void launch_jet_wavelet_backward(int64_t entries, const JetOrders& orders,
                                 const Real* x, const Real* dy, const Real* w1,
                                 const Real* w2, Real* dx, Real* y,
                                 double* partial, cudaStream_t stream) {
  const int64_t blocks = jet_wavelet_blocks(entries);
  const auto launch = [&](auto pack) {
    using P = decltype(pack);
    const auto kernel =
        y != nullptr ? backward<true, P, Real> : backward<false, P, Real>;
    kernel<<<blocks, kThreads, 0, stream>>>(entries, orders, x, dy, w1, w2, dx,
                                            y, partial);
  };
  with_pack<Real>(entries, launch, x, dy, dx, y);
}

template <class Real>
void launch_wavelet_sums(int64_t blocks, const double* partial, Real* sums,
                         cudaStream_t stream) {
  add_wavelet_sums<<<2, kThreads, 0, stream>>>(blocks, partial, sums);
}

#define INSTANTIATE(Real)                                                  \
  template void launch_jet_wavelet(int64_t, const JetOrders&, const Real*, \
                                   const Real*, const Real*, Real*,        \
                                   cudaStream_t);                          \
  template void launch_jet_wavelet_backward(                               \
      int64_t, const JetOrders&, const Real*, const Real*, const Real*,    \
      const Real*, Real*, Real*, double*, cudaStream_t);                   \
  template void launch_wavelet_sums(int64_t, const double*, Real*,         \
                                    cudaStream_t);
INSTANTIATE(float)
INSTANTIATE(double)
#undef INSTANTIATE

}  // namespace propagator::kernels
