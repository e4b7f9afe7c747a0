#include <algorithm>

#include "propagator/kernels/column_sums.cuh"
#include "propagator/kernels/warp.cuh"

namespace propagator::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;
constexpr int kRowsOfThread = 4;       // loaded at a time
constexpr int64_t kManyBlocks = 1056;  // 8 for each of 132 multiprocessors
constexpr int kColumns = 8;            // of one block of the second stage

template <class Real>
int64_t row_blocks(int64_t rows, int64_t width) {
  const int64_t tiles = blocks_for(width, 32 * Pack<Real>::kSize);
  return std::min(blocks_for(rows, kWarps * kRowsOfThread),
                  std::max<int64_t>(1, kManyBlocks / tiles));
}

// What is summed: a itself; dy where y > 0, which dy becomes on the way; or a
// times the normalised x.
template <class Real>
struct Plain {
  const Real* a;
  template <class P>
  __device__ P at(int64_t, int64_t index) const {
    return load_pack<P>(a + index);
  }
};

template <class Real>
struct Relu {
  Real* dy;
  const Real* y;
  template <class P>
  __device__ P at(int64_t, int64_t index) const {
    auto value = load_pack<P>(dy + index);
    const auto py = load_pack<P>(y + index);
#pragma unroll
    for (int k = 0; k < P::kSize; ++k) {
      if (!(py.at[k] > 0)) value.at[k] = 0;
    }
    store_pack(value, dy + index);
    return value;
  }
};

template <class Real>
struct Normalised {
  const Real *a, *x, *mean, *rstd;
  template <class P>
  __device__ P at(int64_t row, int64_t index) const {
    auto value = load_pack<P>(a + index);
    const auto px = load_pack<P>(x + index);
#pragma unroll
    for (int k = 0; k < P::kSize; ++k) {
      value.at[k] *= (px.at[k] - mean[row]) * rstd[row];
    }
    return value;
  }
};

// A warp covers 32 packs of columns, the warps of a block different rows.
template <class P, class Real, template <class> class Term>
__global__ void __launch_bounds__(kThreads)
    column_partials(Term<Real> term, int64_t rows, int width, Real* partials) {
  __shared__ P sums[kWarps][32];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int64_t column = (blockIdx.x * 32 + lane) * P::kSize;
  const int64_t stride = int64_t{gridDim.y} * kWarps;
  P sum{};
  if (column < width) {
    for (int64_t begin = int64_t{blockIdx.y} * kWarps + warp; begin < rows;
         begin += kRowsOfThread * stride) {
      P values[kRowsOfThread];
#pragma unroll
      for (int r = 0; r < kRowsOfThread; ++r) {
        const int64_t row = begin + r * stride;
        values[r] = P{};
        if (row < rows) {
          values[r] = term.template at<P>(row, row * width + column);
        }
      }
#pragma unroll
      for (int r = 0; r < kRowsOfThread; ++r) {
#pragma unroll
        for (int k = 0; k < P::kSize; ++k) sum.at[k] += values[r].at[k];
      }
    }
  }
  sums[warp][lane] = sum;
  __syncthreads();
  if (warp > 0 || column >= width) return;
#pragma unroll
  for (int w = 1; w < kWarps; ++w) {
#pragma unroll
    for (int k = 0; k < P::kSize; ++k) sum.at[k] += sums[w][lane].at[k];
  }
  store_pack(sum, partials + int64_t{blockIdx.y} * width + column);
}

// Thread t sums column t % kColumns over every 32nd block from t / kColumns.
template <bool kAdds, class Real>
__global__ void __launch_bounds__(kThreads)
    add_partials(const Real* partials, int64_t blocks, int64_t width,
                 int64_t split, Real* first, Real* second) {
  __shared__ Real sums[kWarps][kColumns];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int64_t column = int64_t{blockIdx.x} * kColumns + lane % kColumns;
  Real sum = 0;
  if (column < width) {
#pragma unroll 4
    for (int64_t block = threadIdx.x / kColumns; block < blocks;
         block += kThreads / kColumns) {
      sum += partials[block * width + column];
    }
  }
  sum = warp_sum<kColumns>(sum);
  if (lane < kColumns) sums[warp][lane] = sum;
  __syncthreads();
  if (threadIdx.x >= kColumns || column >= width) return;
#pragma unroll
  for (int w = 1; w < kWarps; ++w) sum += sums[w][lane];
  Real* part = column < split ? first : second;
  if (part == nullptr) return;
  Real& out = part[column < split ? column : column - split];
  out = kAdds ? out + sum : sum;
}

template <bool kAdds, class Real>
void launch_second_stage(const Real* partials, int64_t blocks, int64_t width,
                         int64_t split, Real* first, Real* second,
                         cudaStream_t stream) {
  const auto grid = static_cast<unsigned>(blocks_for(width, kColumns));
  add_partials<kAdds><<<grid, kThreads, 0, stream>>>(partials, blocks, width,
                                                     split, first, second);
}

template <class Real, template <class> class Term>
void launch_partials(const Term<Real>& term, bool aligned, int64_t rows,
                     int64_t width, Real* workspace, cudaStream_t stream) {
  const int64_t blocks = row_blocks<Real>(rows, width);
  if (blocks == 0) return;  // no rows
  const auto launch = [&](auto pack) {
    using P = decltype(pack);
    const dim3 grid(static_cast<unsigned>(blocks_for(width, 32 * P::kSize)),
                    static_cast<unsigned>(blocks));
    column_partials<P><<<grid, kThreads, 0, stream>>>(
        term, rows, static_cast<int>(width), workspace);
  };
  if (aligned && width % Pack<Real>::kSize == 0) {
    launch(Pack<Real>{});
  } else {
    launch(Pack<Real, 1>{});
  }
}

template <class Real, template <class> class Term>
void launch_sums(const Term<Real>& term, bool aligned, int64_t rows,
                 int64_t width, bool adds, Real* out, Real* workspace,
                 cudaStream_t stream) {
  launch_partials(term, aligned, rows, width, workspace, stream);
  const auto launch =
      adds ? launch_add_partials<Real> : launch_store_partials<Real>;
  launch(workspace, row_blocks<Real>(rows, width), width, width, out, nullptr,
         stream);
}

}  // namespace

template <class Real>
int64_t column_sums_workspace(int64_t rows, int64_t width) {
  return row_blocks<Real>(rows, width) * width;
}

template <class Real>
void launch_column_sums(const Real* a, int64_t rows, int64_t width, bool adds,
                        Real* out, Real* workspace, cudaStream_t stream) {
  launch_sums(Plain<Real>{a}, aligned_to_16(a, workspace), rows, width, adds,
              out, workspace, stream);
}

template <class Real>
void launch_relu_partials(Real* dy, const Real* y, int64_t rows, int64_t width,
                          Real* workspace, cudaStream_t stream) {
  launch_partials(Relu<Real>{dy, y}, aligned_to_16(dy, y, workspace), rows,
                  width, workspace, stream);
}

template <class Real>
int64_t column_sums_blocks(int64_t rows, int64_t width) {
  return row_blocks<Real>(rows, width);
}

template <class Real>
void launch_normalised_column_sums(const Real* a, const Real* x,
                                   const Real* mean, const Real* rstd,
                                   int64_t rows, int64_t width, Real* out,
                                   Real* workspace, cudaStream_t stream) {
  launch_sums(Normalised<Real>{a, x, mean, rstd},
              aligned_to_16(a, x, workspace), rows, width, /*adds=*/true, out,
              workspace, stream);
}

template <class Real>
void launch_add_partials(const Real* partials, int64_t blocks, int64_t width,
                         int64_t split, Real* first, Real* second,
                         cudaStream_t stream) {
  launch_second_stage<true>(partials, blocks, width, split, first, second,
                            stream);
}

template <class Real>
void launch_store_partials(const Real* partials, int64_t blocks, int64_t width,
                           int64_t split, Real* first, Real* second,
                           cudaStream_t stream) {
  launch_second_stage<false>(partials, blocks, width, split, first, second,
                             stream);
}

#define INSTANTIATE(Real)                                                      \
  template int64_t column_sums_workspace<Real>(int64_t, int64_t);              \
  template void launch_column_sums(const Real*, int64_t, int64_t, bool, Real*, \
                                   Real*, cudaStream_t);                       \
  template void launch_relu_partials(Real*, const Real*, int64_t, int64_t,     \
                                     Real*, cudaStream_t);                     \
  template int64_t column_sums_blocks<Real>(int64_t, int64_t);                 \
  template void launch_normalised_column_sums(                                 \
      const Real*, const Real*, const Real*, const Real*, int64_t, int64_t,    \
      Real*, Real*, cudaStream_t);                                             \
  template void launch_add_partials(const Real*, int64_t, int64_t, int64_t,    \
                                    Real*, Real*, cudaStream_t);               \
  template void launch_store_partials(const Real*, int64_t, int64_t, int64_t,  \
                                      Real*, Real*, cudaStream_t);
INSTANTIATE(float)
INSTANTIATE(double)
#undef INSTANTIATE

}  // namespace propagator::kernels
