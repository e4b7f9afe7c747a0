#include <algorithm>
#include <type_traits>

#include "propagator/kernels/column_sums.cuh"
#include "propagator/kernels/encoder/layer_norm.cuh"
#include "propagator/kernels/warp.cuh"

namespace propagator::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;
constexpr int64_t kManyBlocks = 264;  // 2 for each of 132 multiprocessors
constexpr int kMostPacks = 8;         // of a row, in the registers of a lane

int64_t gradient_blocks(int64_t rows) {
  return std::min(blocks_for(rows, kWarps), kManyBlocks);
}

__device__ int64_t first_row() {
  return int64_t{blockIdx.x} * kWarps + threadIdx.x / 32;
}

// One row in the registers of a warp, 16 bytes at a time; zeros beyond its end.
template <class Real, int kPacks>
struct Row {
  using P = Pack<Real>;
  static constexpr int kCount = kPacks * P::kSize;
  Real at[kCount];

  __device__ Row() : at{} {}

  // Row n of a matrix, or zeros where there is none.
  __device__ Row(const Real* matrix, int64_t n, int width) {
#pragma unroll
    for (int k = 0; k < kPacks; ++k) {
      P pack{};
      if (matrix && column(k) < width) {
        pack = load_pack<P>(matrix + n * width + column(k));
      }
#pragma unroll
      for (int i = 0; i < P::kSize; ++i) at[k * P::kSize + i] = pack.at[i];
    }
  }

  __device__ void store(Real* matrix, int64_t n, int width) const {
#pragma unroll
    for (int k = 0; k < kPacks; ++k) {
      if (column(k) < width) {
        store_pack(this->pack(k), matrix + n * width + column(k));
      }
    }
  }

  __device__ static int column(int k) {
    return (threadIdx.x % 32 + 32 * k) * P::kSize;
  }
  __device__ P pack(int k) const {
    P pack;
#pragma unroll
    for (int i = 0; i < P::kSize; ++i) pack.at[i] = at[k * P::kSize + i];
    return pack;
  }
};

template <class Real, int kPacks>
__global__ void __launch_bounds__(kThreads)
    layer_norm_rows(LayerNorm<Real> in) {
  using Values = Row<Real, kPacks>;
  const int64_t n = first_row();
  const int width = static_cast<int>(in.width);
  if (n >= in.rows) return;
  Values x(in.x, n, width);
  const Values gamma(in.gamma, 0, width), beta(in.beta, 0, width);
  Real sum = 0, squares = 0;
#pragma unroll
  for (int i = 0; i < Values::kCount; ++i) sum += x.at[i];
  const Real mean = warp_sum(sum) / width;
#pragma unroll
  for (int i = 0; i < Values::kCount; ++i) {
    const bool inside = Values::column(i / Values::P::kSize) < width;
    x.at[i] = inside ? x.at[i] - mean : 0;
    squares += x.at[i] * x.at[i];
  }
  const Real variance = warp_sum(squares) / width;
  const Real rstd = 1 / sqrt(variance + static_cast<Real>(in.eps));
#pragma unroll
  for (int i = 0; i < Values::kCount; ++i) {
    x.at[i] = x.at[i] * rstd * gamma.at[i] + beta.at[i];
  }
  x.store(in.y, n, width);
  if (threadIdx.x % 32 == 0) {
    in.mean[n] = mean;
    in.rstd[n] = rstd;
  }
}

// The same for rows of any width and address, a warp for each.
template <class Real>
__global__ void __launch_bounds__(kThreads) layer_norm_any(LayerNorm<Real> in) {
  const int64_t n = first_row();
  const int width = static_cast<int>(in.width), lane = threadIdx.x % 32;
  if (n >= in.rows) return;
  const Real* x = in.x + n * width;
  Real sum = 0, squares = 0;
  for (int i = lane; i < width; i += 32) sum += x[i];
  const Real mean = warp_sum(sum) / width;
  for (int i = lane; i < width; i += 32) {
    squares += (x[i] - mean) * (x[i] - mean);
  }
  const Real variance = warp_sum(squares) / width;
  const Real rstd = 1 / sqrt(variance + static_cast<Real>(in.eps));
  for (int i = lane; i < width; i += 32) {
    in.y[n * width + i] = (x[i] - mean) * rstd * in.gamma[i] + in.beta[i];
  }
  if (lane == 0) {
    in.mean[n] = mean;
    in.rstd[n] = rstd;
  }
}

// The sum over the warps of a block of one row each.
template <class Real, int kPacks>
__device__ void store_block_sum(const Row<Real, kPacks>& row,
                                Pack<Real> (*shared)[32 * kPacks], Real* out,
                                int width) {
  using P = Pack<Real>;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  __syncthreads();
#pragma unroll
  for (int k = 0; k < kPacks; ++k) shared[warp][lane + 32 * k] = row.pack(k);
  __syncthreads();
  for (int pack = threadIdx.x; pack * P::kSize < width; pack += kThreads) {
    P sum = shared[0][pack];
#pragma unroll
    for (int w = 1; w < kWarps; ++w) {
#pragma unroll
      for (int i = 0; i < P::kSize; ++i) sum.at[i] += shared[w][pack].at[i];
    }
    store_pack(sum, out + pack * P::kSize);
  }
}

// A warp walks over rows and keeps its share of dgamma and dbeta in registers,
// where one of them is wanted.
template <class Real, int kPacks, bool kSums>
__global__ void __launch_bounds__(kThreads, kPacks <= 4 ? 2 : 1)
    gradient_rows(LayerNormGradient<Real> in) {
  using Values = Row<Real, kPacks>;
  __shared__ Pack<Real> shared[kWarps][32 * kPacks];
  const int width = static_cast<int>(in.width);
  const Values gamma(in.gamma, 0, width);
  Values dgamma, dbeta;
  const int64_t stride = int64_t{gridDim.x} * kWarps;
  for (int64_t n = first_row(); n < in.rows; n += stride) {
    Values dy(in.dy, n, width), x(in.x, n, width);
    const Values residual(in.residual, n, width);
    const Real mean = in.mean[n], rstd = in.rstd[n];
    Real sum = 0, product = 0;
#pragma unroll
    for (int i = 0; i < Values::kCount; ++i) {
      x.at[i] = (x.at[i] - mean) * rstd;
      if constexpr (kSums) {
        dgamma.at[i] += dy.at[i] * x.at[i];
        dbeta.at[i] += dy.at[i];
      }
      dy.at[i] *= gamma.at[i];
      sum += dy.at[i];
      product += dy.at[i] * x.at[i];
    }
    sum = warp_sum(sum) / width;
    product = warp_sum(product) / width;
#pragma unroll
    for (int i = 0; i < Values::kCount; ++i) {
      dy.at[i] = residual.at[i] + rstd * (dy.at[i] - sum - x.at[i] * product);
    }
    dy.store(in.dx, n, width);
  }
  if constexpr (kSums) {
    Real* partial = in.workspace + int64_t{blockIdx.x} * 2 * width;
    store_block_sum<Real, kPacks>(dgamma, shared, partial, width);
    store_block_sum<Real, kPacks>(dbeta, shared, partial + width, width);
  }
}

// dx alone, for rows of any width and address.
template <class Real>
__global__ void __launch_bounds__(kThreads)
    gradient_any(LayerNormGradient<Real> in) {
  const int64_t n = first_row();
  const int width = static_cast<int>(in.width), lane = threadIdx.x % 32;
  if (n >= in.rows) return;
  const Real *dy = in.dy + n * width, *x = in.x + n * width;
  const Real mean = in.mean[n], rstd = in.rstd[n];
  Real sum = 0, product = 0;
  for (int i = lane; i < width; i += 32) {
    const Real g = dy[i] * in.gamma[i];
    sum += g;
    product += g * (x[i] - mean) * rstd;
  }
  sum = warp_sum(sum) / width;
  product = warp_sum(product) / width;
  for (int i = lane; i < width; i += 32) {
    const Real before = in.residual ? in.residual[n * width + i] : 0;
    const Real g = dy[i] * in.gamma[i];
    in.dx[n * width + i] =
        before + rstd * (g - sum - (x[i] - mean) * rstd * product);
  }
}

template <class Real>
bool fits_registers(int64_t width) {
  constexpr int64_t kSize = Pack<Real>::kSize;
  return width % kSize == 0 && width <= 32 * kMostPacks * kSize;
}

// Calls launch with the packs of a row that a lane holds.
template <class Real, class Launch>
void with_packs(int64_t width, const Launch& launch) {
  const int64_t packs = blocks_for(width, 32 * Pack<Real>::kSize);
  if (packs <= 1) {
    launch(std::integral_constant<int, 1>{});
  } else if (packs <= 4) {
    launch(std::integral_constant<int, 4>{});
  } else {
    launch(std::integral_constant<int, kMostPacks>{});
  }
}

template <class Real>
bool rows_fit(const LayerNormGradient<Real>& in) {
  return fits_registers<Real>(in.width) &&
         aligned_to_16(in.dy, in.x, in.gamma, in.residual, in.dx, in.workspace);
}

}  // namespace

template <class Real>
void launch_layer_norm(const LayerNorm<Real>& in, cudaStream_t stream) {
  if (in.rows == 0) return;
  const auto blocks = static_cast<unsigned>(blocks_for(in.rows, kWarps));
  const bool aligned = aligned_to_16(in.x, in.gamma, in.beta, in.y);
  if (!aligned || !fits_registers<Real>(in.width)) {
    layer_norm_any<<<blocks, kThreads, 0, stream>>>(in);
    return;
  }
  with_packs<Real>(in.width, [&](auto packs) {
    layer_norm_rows<Real, packs><<<blocks, kThreads, 0, stream>>>(in);
  });
}

template <class Real>
int64_t layer_norm_workspace(int64_t rows, int64_t width) {
  return std::max(2 * width * gradient_blocks(rows),
                  column_sums_workspace<Real>(rows, width));
}

template <class Real>
void launch_layer_norm_gradient(const LayerNormGradient<Real>& in,
                                cudaStream_t stream) {
  if (in.rows == 0) return;
  if (!rows_fit(in)) {
    const auto blocks = static_cast<unsigned>(blocks_for(in.rows, kWarps));
    gradient_any<<<blocks, kThreads, 0, stream>>>(in);
    return;
  }
  const auto blocks = static_cast<unsigned>(gradient_blocks(in.rows));
  with_packs<Real>(in.width, [&](auto packs) {
    if (in.has_sums()) {
      gradient_rows<Real, packs, true><<<blocks, kThreads, 0, stream>>>(in);
    } else {
      gradient_rows<Real, packs, false><<<blocks, kThreads, 0, stream>>>(in);
    }
  });
}

template <class Real>
void launch_layer_norm_gradient_sums(const LayerNormGradient<Real>& in,
                                     cudaStream_t stream) {
  if (in.rows == 0) return;
  if (!rows_fit(in)) {
    if (in.dgamma != nullptr) {
      launch_normalised_column_sums(in.dy, in.x, in.mean, in.rstd, in.rows,
                                    in.width, in.dgamma, in.workspace, stream);
    }
    if (in.dbeta != nullptr) {
      launch_column_sums(in.dy, in.rows, in.width, /*adds=*/true, in.dbeta,
                         in.workspace, stream);
    }
    return;
  }
  launch_add_partials<Real>(in.workspace, gradient_blocks(in.rows),
                            2 * in.width, in.width, in.dgamma, in.dbeta,
                            stream);
}

#define INSTANTIATE(Real)                                                  \
  template void launch_layer_norm(const LayerNorm<Real>&, cudaStream_t);   \
  template int64_t layer_norm_workspace<Real>(int64_t, int64_t);           \
  template void launch_layer_norm_gradient(const LayerNormGradient<Real>&, \
                                           cudaStream_t);                  \
  template void launch_layer_norm_gradient_sums(                           \
      const LayerNormGradient<Real>&, cudaStream_t);
INSTANTIATE(float)
INSTANTIATE(double)
#undef INSTANTIATE

}  // namespace propagator::kernels
