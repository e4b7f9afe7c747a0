#pragma once

#include <cuda_runtime.h>

#include <cstdint>

// Products of rows on the tensor cores, for kernels in which a block owns 64
// rows of depth D, 16 to a warp, and walks over other rows in chunks of 32 held
// in shared memory. kTf32 rounds the factors to TF32; without it each product
// is taken as three of them, which is nearly float32.
namespace propagator::kernels::mma_rows {

constexpr int kWarps = 4;
constexpr int kThreads = 32 * kWarps;
constexpr int kRows = 16 * kWarps;
constexpr int kChunk = 32;

// One mma takes a (16 × 8) times b (8 × 8). With r = lane / 4 and p = lane % 4
// a lane holds a at rows r, r + 8 and inner p, p + 4; b at inner p, p + 4 and
// column r; of the sums the rows r, r + 8 and columns 2p, 2p + 1.
inline __device__ int lane_row() { return threadIdx.x % 32 / 4; }
inline __device__ int lane_pair() { return threadIdx.x % 4; }

// The first row of a warp in such a block; a lane has the rows + lane_row() and
// 8 further on.
inline __device__ int first_row(int block) {
  return block * kRows + threadIdx.x / 32 * 16;
}

// Columns and inner indices may be renamed as long as both factors agree.
// (1) Depth 2p, 2p + 1 takes the inner places p, p + 4: one 8-byte load.
// (2) Row `row_of(c)` of a group of 8 in shared memory takes the column c of
//     scores, so that sums of scores are, in place, the factor a of the next
//     product, whose inner places p, p + 4 are the rows of columns 2p, 2p + 1.
// (3) There depth 16m + 2c + e takes column c of the sums 2m + e: 8-byte loads
//     again, and a lane ends up with 4 depths in a row.
// With this row_of and rows of D + 8 floats neither (2) nor (3) has two lanes
// of a half warp in one bank: its four rows differ modulo 4.
inline __device__ int row_of(int column) {
  return column % 2 ? 4 + (column / 2 ^ 2) : column / 2;
}

template <int kDepth>
struct Tile {
  static constexpr int kStride = kDepth + 8;
  alignas(16) float at[kChunk * kStride];
};

// The g-th group of 8 rows of a tile.
template <int kDepth>
__device__ const float* group(const float* tile, int g) {
  return tile + 8 * g * Tile<kDepth>::kStride;
}

// 16 rows of a warp as factor a, renamed by (1), and as sums, renamed by (3).
template <int kDepth>
struct Factor {
  float at[kDepth / 8][4];
};
template <int kDepth>
struct Sums {
  float at[kDepth / 8][4];
};

// Volatile, or the compiler splits the rows of a warp into operands once and
// for all, which takes more registers than there are.
inline __device__ float round_tf32(float x) {
  uint32_t y;
  asm volatile("cvt.rna.tf32.f32 %0, %1;" : "=r"(y) : "f"(x));
  return __uint_as_float(y);
}

// TF32 factors are rounded where they are stored, not at each product.
template <bool kTf32>
__device__ float stored(float x) {
  return kTf32 ? round_tf32(x) : x;
}

inline __device__ float quad_sum(float x) {
  x += __shfl_xor_sync(~0u, x, 1);
  return x + __shfl_xor_sync(~0u, x, 2);
}

inline __device__ float quad_max(float x) {
  x = fmaxf(x, __shfl_xor_sync(~0u, x, 1));
  return fmaxf(x, __shfl_xor_sync(~0u, x, 2));
}

template <class Real>
__device__ Real* token(Real* x, int stride, int i) {
  return x + static_cast<int64_t>(i) * stride;
}

inline __device__ float2 load2(const float* x) {
  return *reinterpret_cast<const float2*>(x);
}

inline __device__ float4 load4(const float* x) {
  return *reinterpret_cast<const float4*>(x);
}

inline __device__ void mma(float (&sum)[4], const float (&a)[4],
                           const float (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
      : "r"(__float_as_uint(a[0])), "r"(__float_as_uint(a[1])),
        "r"(__float_as_uint(a[2])), "r"(__float_as_uint(a[3])),
        "r"(__float_as_uint(b[0])), "r"(__float_as_uint(b[1])));
}

// high + low = x to 22 bits, each of them a TF32 number.
template <bool kTf32, int kSize>
struct Operand {
  float high[kSize], low[kSize];

  __device__ explicit Operand(const float (&x)[kSize]) {
#pragma unroll
    for (int i = 0; i < kSize; ++i) {
      high[i] = kTf32 ? x[i] : round_tf32(x[i]);
      low[i] = kTf32 ? 0 : round_tf32(x[i] - high[i]);
    }
  }
};

template <bool kTf32>
__device__ void multiply_add(float (&sum)[4], const Operand<kTf32, 4>& a,
                             const Operand<kTf32, 2>& b) {
  if constexpr (kTf32) {
    mma(sum, a.high, b.high);
  } else {
    // Tensor cores cut sums off instead of rounding them, so long sums are left
    // to ordinary additions.
    float part[4] = {};
    mma(part, a.low, b.high);
    mma(part, a.high, b.low);
    mma(part, a.high, b.high);
#pragma unroll
    for (int i = 0; i < 4; ++i) sum[i] += part[i];
  }
}

// Adds the products of the 16 rows of a with 8 kGroups rows in shared memory.
template <bool kTf32, int kDepth, int kGroups>
__device__ void add_scores(float (&sum)[kGroups][4], const Factor<kDepth>& a,
                           const float* rows) {
  constexpr int kStride = Tile<kDepth>::kStride;
  const float* at = rows + row_of(lane_row()) * kStride + 2 * lane_pair();
#pragma unroll
  for (int k = 0; k < kDepth / 8; ++k) {
    const Operand<kTf32, 4> left(a.at[k]);
#pragma unroll
    for (int g = 0; g < kGroups; ++g) {
      const float2 x = load2(group<kDepth>(at, g) + 8 * k);
      multiply_add(sum[g], left, Operand<kTf32, 2>({x.x, x.y}));
    }
  }
}

// Adds the sum of a group of 8 rows in shared memory with weights[row] each,
// which are rounded already.
template <bool kTf32, int kDepth>
__device__ void add_weighted(Sums<kDepth>& sum, const float (&weights)[4],
                             const float* rows) {
  const Operand<kTf32, 4> left(
      {weights[0], weights[2], weights[1], weights[3]});
  constexpr int kStride = Tile<kDepth>::kStride;
  const float* even = rows + row_of(2 * lane_pair()) * kStride;
  const float* odd = rows + row_of(2 * lane_pair() + 1) * kStride;
#pragma unroll
  for (int m = 0; m < kDepth / 16; ++m) {
    const float2 x = load2(even + 16 * m + 2 * lane_row());
    const float2 y = load2(odd + 16 * m + 2 * lane_row());
    multiply_add(sum.at[2 * m], left, Operand<kTf32, 2>({x.x, y.x}));
    multiply_add(sum.at[2 * m + 1], left, Operand<kTf32, 2>({x.y, y.y}));
  }
}

// Rows past the end repeat the last one: their results are not stored, or have
// no weight, and loads without conditions can all be under way at once. From
// each row `origin` is subtracted, if there is one.
template <int kDepth, bool kTf32>
__device__ Factor<kDepth> load_factor(const float* x, int stride, int first,
                                      int tokens,
                                      const float* origin = nullptr) {
  Factor<kDepth> a;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = min(first + lane_row() + 8 * half, tokens - 1);
    const float* at = token(x, stride, row) + 2 * lane_pair();
#pragma unroll
    for (int k = 0; k < kDepth / 8; ++k) {
      const float2 y = load2(at + 8 * k);
      const float2 zero =
          origin ? load2(origin + 8 * k + 2 * lane_pair()) : float2{};
      a.at[k][half] = y.x - zero.x;
      a.at[k][half + 2] = y.y - zero.y;
    }
  }
#pragma unroll
  for (int i = 0; i < kDepth / 2; ++i) {
    a.at[i / 4][i % 4] = stored<kTf32>(a.at[i / 4][i % 4]);
  }
  return a;
}

// Stores origin + scale · sum.
template <int kDepth>
__device__ void store_sums(float* x, int stride, int first, int tokens,
                           const Sums<kDepth>& sum, const float (&scale)[2],
                           const float* origin = nullptr) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = first + lane_row() + 8 * half;
    if (row >= tokens) continue;
    auto* at = reinterpret_cast<float4*>(token(x, stride, row)) + lane_pair();
    const float by = scale[half];
#pragma unroll
    for (int m = 0; m < kDepth / 16; ++m) {
      const auto &even = sum.at[2 * m], &odd = sum.at[2 * m + 1];
      const float4 zero =
          origin ? load4(origin + 16 * m + 4 * lane_pair()) : float4{};
      at[4 * m] = make_float4(
          zero.x + by * even[2 * half], zero.y + by * odd[2 * half],
          zero.z + by * even[2 * half + 1], zero.w + by * odd[2 * half + 1]);
    }
  }
}

// A chunk of rows on its way to shared memory, each less a row `zero`.
template <int kDepth, bool kTf32>
class Chunk {
 public:
  // What a thread stores of a row.
  __device__ static float4 part_of(const float* row) {
    return load4(row + column());
  }

  __device__ void load(const float* x, int stride, int first, int tokens) {
#pragma unroll
    for (int i = 0; i < kPasses; ++i) {
      const int row = min(first + row_of_pass(i), tokens - 1);
      at_[i] = part_of(token(x, stride, row));
    }
  }

  __device__ void store(Tile<kDepth>& tile, float4 zero = {}) const {
#pragma unroll
    for (int i = 0; i < kPasses; ++i) {
      float* to = tile.at + row_of_pass(i) * Tile<kDepth>::kStride + column();
      *reinterpret_cast<float4*>(to) = {
          stored<kTf32>(at_[i].x - zero.x), stored<kTf32>(at_[i].y - zero.y),
          stored<kTf32>(at_[i].z - zero.z), stored<kTf32>(at_[i].w - zero.w)};
    }
  }

 private:
  static constexpr int kPacks = kDepth / 4;  // of 16 bytes in a row
  static constexpr int kPasses = kChunk * kPacks / kThreads;
  static_assert(kPasses * kThreads == kChunk * kPacks);

  __device__ static int row_of_pass(int i) {
    return threadIdx.x / kPacks + i * (kThreads / kPacks);
  }
  __device__ static int column() { return threadIdx.x % kPacks * 4; }

  float4 at_[kPasses];
};

// Calls step(first row, buffer) for each chunk of [begin, end); meanwhile the
// next one is on its way to the other buffer.
template <class Load, class Store, class Step>
__device__ void for_each_chunk(int begin, int end, Load load, Store store,
                               Step step) {
  load(begin);
  store(0);
  __syncthreads();
  int buffer = 0;
  for (int first = begin; first < end; first += kChunk, buffer ^= 1) {
    const bool more = first + kChunk < end;
    if (more) load(first + kChunk);
    step(first, buffer);
    if (more) store(buffer ^ 1);
    __syncthreads();
  }
}

}  // namespace propagator::kernels::mma_rows
