#include "propagator/kernels/jet/jet_attention.cuh"

#include <cuda_pipeline.h>

#include <algorithm>
#include <cmath>

#include "propagator/kernels/jet/jet_products.cuh"
#include "propagator/kernels/jet/jet_softmax.h"
#include "propagator/kernels/warp.cuh"

// A block has a few windows, whose rows it reads into shared memory, once.
// There a thread has a pair of tokens (scores), then a line of a matrix
// (softmax), then a few channels of a token (sums over tokens), which go from
// registers to the answer.
namespace propagator::kernels {
namespace {

// A block takes as many windows as fill so many threads and so many bytes, a
// quarter of what a multiprocessor of an H200 has; one alone may need more.
constexpr int kThreads = 160, kMostThreads = 256;
constexpr size_t kBytes = 55 * 1024;
constexpr size_t kBytesUnasked = 48 * 1024;  // any kernel may have these

// The windows of a block in shared memory: tensors (M, G, T, C) and matrices
// (M, G, H, T, T); u = 0 … G H - 1 is a head of one of them. Tokens lie 16
// bytes further apart than their channels, and the lines of a matrix are of
// odd length, so that neighbours meet in different banks.
struct Windows {
  JetOrders orders;
  int64_t all;  // N
  int rows, group, tokens, width, heads;
  int pitch, line;

  __device__ int depth() const { return width / heads; }
  __host__ __device__ int tensor_row() const { return group * tokens * pitch; }
  __host__ __device__ int matrix_row() const {
    return group * heads * tokens * line;
  }
  __device__ int tensor() const { return rows * tensor_row(); }
  __device__ int matrix() const { return rows * matrix_row(); }

  // Those of the block; the last one may have fewer.
  __device__ int64_t first() const { return int64_t{blockIdx.x} * group; }
  __device__ int count() const {
    return static_cast<int>(min(int64_t{group}, all - first()));
  }

  // Where line i of a matrix begins.
  __device__ int line_of(int u, int i) const { return (u * tokens + i) * line; }

  // The channels of token t; channels c … of all tokens; line i of a matrix;
  // its column j.
  template <class P, class Real>
  __device__ Jets<P, Real> channels(const Real* x, int u, int t) const {
    const int token = u / heads * tokens + t;
    return {x + token * pitch + u % heads * depth(), P::kSize, tensor_row()};
  }
  template <class P, class Real>
  __device__ Jets<P, Real> along_tokens(const Real* x, int u, int c) const {
    return {x + u / heads * tokens * pitch + c, pitch, tensor_row()};
  }
  template <class Real>
  __device__ Jets<Real, Real> along_line(const Real* x, int u, int i) const {
    return {x + line_of(u, i), 1, matrix_row()};
  }
  template <class Real>
  __device__ Jets<Real, Real> along_column(const Real* x, int u, int j) const {
    return {x + line_of(u, 0) + j, line, matrix_row()};
  }
};

// The block's threads share out n pieces of work.
template <class Work>
__device__ void for_each(int n, const Work& work) {
  for (int at = threadIdx.x; at < n; at += blockDim.x) work(at);
}

// `work(u, i, j)` for pairs of tokens.
template <class Work>
__device__ void for_pairs(const Windows& w, const Work& work) {
  const int t = w.tokens;
  for_each(w.count() * w.heads * t * t,
           [&](int at) { work(at / (t * t), at / t % t, at % t); });
}

// `work(u, t, c)` for packs of channels.
template <class P, class Work>
__device__ void for_channels(const Windows& w, const Work& work) {
  const int chunks = w.width / P::kSize;
  for_each(w.count() * w.tokens * chunks, [&](int at) {
    const int token = at / chunks, c = at % chunks * P::kSize;
    work(token / w.tokens * w.heads + c / w.depth(), token % w.tokens, c);
  });
}

// Starts to copy the block's windows into a tensor; tokens in memory are `step`
// apart.
template <class P, class Real>
__device__ void copy_windows(const Windows& w, const Real* from, int step,
                             Real* to) {
  const int chunks = w.width / P::kSize;
  for_each(w.count() * w.tokens * chunks, [&](int at) {
    const int token = at / chunks, c = at % chunks * P::kSize;
    const Real* source = from + (w.first() * w.tokens + token) * step + c;
    Real* target = to + token * w.pitch + c;
    for (int m = 0; m < w.rows; ++m) {
      __pipeline_memcpy_async(target, source, sizeof(P));
      source += w.all * w.tokens * step;
      target += w.tensor_row();
    }
  });
}

// Until the copies of all threads are there.
__device__ void wait_for_copies() {
  __pipeline_commit();
  __pipeline_wait_prior(0);
  __syncthreads();
}

// Where the rows of channels c … of token t go, times `factor`; tokens there
// are `step` apart.
template <class P, class Real>
struct Answer {
  Real* data;
  int64_t row;
  Real factor;

  __device__ Answer(const Windows& w, Real* to, int step, int u, int t, int c,
                    Real by)
      : data(to + ((w.first() + u / w.heads) * w.tokens + t) * step + c),
        row(w.all * w.tokens * step),
        factor(by) {}
  __device__ void operator()(int m, P x) const {
#pragma unroll
    for (int i = 0; i < P::kSize; ++i) x.at[i] *= factor;
    store_pack(x, data + m * row);
  }
};

// s = scale q kᵀ + bias.
template <class P, class Real>
__device__ void scores(const Windows& w, const Real* q, const Real* k,
                       const Real* bias, Real scale, Real* s) {
  for_pairs(w, [&](int u, int i, int j) {
    const int64_t line = (w.first() * w.heads + u) * w.tokens + i;
    const Real added = bias == nullptr ? 0 : bias[line * w.tokens + j];
    Real* to = s + w.line_of(u, i) + j;
    sum_products<Real>(w.orders, w.depth() / P::kSize, w.channels<P>(q, u, i),
                       w.channels<P>(k, u, j), Product(), [&](int m, Real sum) {
                         to[m * w.matrix_row()] =
                             scale * sum + (m == 0 ? added : 0);
                       });
  });
}

template <class Real, int kPack>
__global__ void __launch_bounds__(kMostThreads, sizeof(Real) == 4 ? 3 : 2)
    forward(Windows w, const Real* q, const Real* kv, const Real* bias,
            Real scale, Real* out) {
  using P = Pack<Real, kPack>;
  extern __shared__ __align__(16) unsigned char shared[];
  Real* query = reinterpret_cast<Real*>(shared);
  Real* key = query + w.tensor();
  Real* value = key + w.tensor();
  Real* s = value + w.tensor();
  Real* p = s + w.matrix();
  copy_windows<P>(w, q, w.width, query);
  copy_windows<P>(w, kv, 2 * w.width, key);
  copy_windows<P>(w, kv + w.width, 2 * w.width, value);
  wait_for_copies();
  scores<P>(w, query, key, bias, scale, s);
  __syncthreads();
  for_each(w.count() * w.heads * w.tokens, [&](int n) {
    const int at = n * w.line;
    jet_softmax(s + at, p + at, w.matrix_row(), w.tokens, w.orders);
  });
  __syncthreads();
  for_channels<P>(w, [&](int u, int t, int c) {
    sum_products<P>(w.orders, w.tokens, w.along_line(p, u, t),
                    w.along_tokens<P>(value, u, c), Product(),
                    Answer<P, Real>(w, out, w.width, u, t, c, 1));
  });
}

template <class Real, int kPack>
__global__ void __launch_bounds__(kMostThreads, sizeof(Real) == 4 ? 3 : 2)
    backward(Windows w, const Real* q, const Real* kv, const Real* bias,
             const Real* grad, Real scale, Real* dq, Real* dkv) {
  using P = Pack<Real, kPack>;
  extern __shared__ __align__(16) unsigned char shared[];
  Real* query = reinterpret_cast<Real*>(shared);
  Real* key = query + w.tensor();
  Real* value = key + w.tensor();
  Real* given = value + w.tensor();
  Real* s = given + w.tensor();
  Real* p = s + w.matrix();
  Real* d = p + w.matrix();  // gradients by p, then by s
  copy_windows<P>(w, q, w.width, query);
  copy_windows<P>(w, kv, 2 * w.width, key);
  copy_windows<P>(w, kv + w.width, 2 * w.width, value);
  copy_windows<P>(w, grad, w.width, given);
  wait_for_copies();
  scores<P>(w, query, key, bias, scale, s);
  for_pairs(w, [&](int u, int i, int j) {
    Real* to = d + w.line_of(u, i) + j;
    sum_products<Real>(w.orders, w.depth() / kPack, w.channels<P>(given, u, i),
                       w.channels<P>(value, u, j), Gradient(),
                       [&](int m, Real sum) { to[m * w.matrix_row()] = sum; });
  });
  __syncthreads();
  for_each(w.count() * w.heads * w.tokens, [&](int n) {
    const int at = n * w.line;
    jet_softmax(s + at, p + at, w.matrix_row(), w.tokens, w.orders);
    jet_softmax_backward(s + at, p + at, d + at, w.matrix_row(), w.tokens,
                         w.orders);
  });
  __syncthreads();
  for_channels<P>(w, [&](int u, int t, int c) {
    const int both = 2 * w.width;
    sum_products<P>(w.orders, w.tokens, w.along_line(d, u, t),
                    w.along_tokens<P>(key, u, c), Gradient(),
                    Answer<P, Real>(w, dq, w.width, u, t, c, scale));
    sum_products<P>(w.orders, w.tokens, w.along_column(d, u, t),
                    w.along_tokens<P>(query, u, c), Gradient(),
                    Answer<P, Real>(w, dkv, both, u, t, c, scale));
    sum_products<P>(w.orders, w.tokens, w.along_tokens<P>(given, u, c),
                    w.along_column(p, u, t), Gradient(),
                    Answer<P, Real>(w, dkv, both, u, t, w.width + c, 1));
  });
}

struct Launch {
  Windows windows;
  unsigned blocks;
  int threads;
  size_t bytes;
};

// With a thread for every pair of tokens and every pack of channels, if that
// can be, and room for so many tensors and matrices.
template <class Real>
Launch launch_of(const JetWindows& s, int pack, size_t tensors,
                 size_t matrices) {
  const auto number = [](auto n) { return static_cast<int>(n); };
  Windows w{};
  w.orders = s.orders;
  w.all = s.windows;
  w.rows = number(s.orders.rows());
  w.group = 1;
  w.tokens = number(s.tokens);
  w.width = number(s.width);
  w.heads = number(s.heads);
  w.pitch = w.width + Pack<Real>::kSize;
  w.line = w.tokens | 1;
  const int items = std::max(w.heads * w.tokens, w.width / pack) * w.tokens;
  const size_t bytes = sizeof(Real) * w.rows *
                       (tensors * w.tensor_row() + matrices * w.matrix_row());
  w.group = std::max(1, std::min(kThreads / items, number(kBytes / bytes)));
  return {w, static_cast<unsigned>(blocks_for(w.all, w.group)),
          std::min(kMostThreads, (w.group * items + 31) / 32 * 32),
          w.group * bytes};
}

// Calls `launch(pack)` with the largest pack that heads and pointers allow.
template <class Real, class Work, class... Pointers>
void with_pack(const JetWindows& s, const Work& launch, Pointers... pointers) {
  const bool whole = s.width / s.heads % Pack<Real>::kSize == 0;
  if (whole && aligned_to_16(pointers...)) {
    launch(Pack<Real>());
  } else {
    launch(Pack<Real, 1>());
  }
}

template <class Kernel>
void allow_bytes(Kernel kernel, size_t bytes) {
  if (bytes <= kBytesUnasked) return;
  cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                       static_cast<int>(bytes));
}

template <class Real>
Real scale_of(const JetWindows& s) {
  return 1 / std::sqrt(static_cast<Real>(s.width / s.heads));
}

}  // namespace

template <class Real>
bool jet_attention_fits(const JetWindows& shape) {
  int device = 0, most = 0;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin,
                         device);
  return launch_of<Real>(shape, 1, 4, 3).bytes <= static_cast<size_t>(most);
}

template <class Real>
void launch_jet_attention(const JetWindows& shape, const Real* q,
                          const Real* kv, const Real* bias, Real* out,
                          cudaStream_t stream) {
  const auto launch = [&](auto pack) {
    constexpr int kPack = decltype(pack)::kSize;
    const auto kernel = forward<Real, kPack>;
    const auto at = launch_of<Real>(shape, kPack, 3, 2);
    allow_bytes(kernel, at.bytes);
    kernel<<<at.blocks, at.threads, at.bytes, stream>>>(
        at.windows, q, kv, bias, scale_of<Real>(shape), out);
  };
  with_pack<Real>(shape, launch, q, kv, out);
}

template <class Real>
void launch_jet_attention_backward(const JetWindows& shape, const Real* q,
                                   const Real* kv, const Real* bias,
                                   const Real* grad, Real* dq, Real* dkv,
                                   cudaStream_t stream) {
  const auto launch = [&](auto pack) {
    constexpr int kPack = decltype(pack)::kSize;
    const auto kernel = backward<Real, kPack>;
    const auto at = launch_of<Real>(shape, kPack, 4, 3);
    allow_bytes(kernel, at.bytes);
    kernel<<<at.blocks, at.threads, at.bytes, stream>>>(
        at.windows, q, kv, bias, grad, scale_of<Real>(shape), dq, dkv);
  };
  with_pack<Real>(shape, launch, q, kv, grad, dq, dkv);
}

#define INSTANTIATE(Real)                                                    \
  template bool jet_attention_fits<Real>(const JetWindows&);                 \
  template void launch_jet_attention(const JetWindows&, const Real*,         \
                                     const Real*, const Real*, Real*,        \
                                     cudaStream_t);                          \
  template void launch_jet_attention_backward(                               \
      const JetWindows&, const Real*, const Real*, const Real*, const Real*, \
      Real*, Real*, cudaStream_t);
INSTANTIATE(float)
INSTANTIATE(double)
#undef INSTANTIATE

}  // namespace propagator::kernels
