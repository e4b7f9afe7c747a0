#include <type_traits>

#include "propagator/kernels/column_sums.cuh"
#include "propagator/kernels/small_linear.cuh"
#include "propagator/kernels/warp.cuh"

namespace propagator::kernels {
namespace {

using Four = Pack<float>;

constexpr int kIn = static_cast<int>(kSmallInputs);
constexpr int kThreads = 256;
constexpr int kLanes = kIn / Four::kSize;  // that share 32 numbers of a row
constexpr int kRowsAtOnce = kThreads / kLanes;
constexpr int kRowsOfThread = 4;  // of forward
constexpr int kForwardRows = kRowsAtOnce * kRowsOfThread;
constexpr int64_t kManyBlocks = 396;  // of backward: 3 for each of 132

// Rows in shared memory, each with four numbers of air behind it: lanes that
// read one column of rows that follow each other then meet different banks.
template <int kWidth, int kRows>
struct Tile {
  static constexpr int kStride = kWidth + Four::kSize;
  alignas(16) float numbers[kRows * kStride];

  __device__ float* at(int row, int column) {
    return numbers + row * kStride + column;
  }
  __device__ Four four(int row, int column) {
    return load_pack<Four>(at(row, column));
  }
  // Rows from `count` on are zero.
  __device__ void load(const float* from, int64_t count) {
    constexpr int kFours = kWidth / Four::kSize;
    for (int k = threadIdx.x; k < kRows * kFours; k += kThreads) {
      const int row = k / kFours, column = k % kFours * Four::kSize;
      Four four{};
      if (row < count) four = load_pack<Four>(from + row * kWidth + column);
      store_pack(four, at(row, column));
    }
  }
};

__device__ void add_product(Four& sum, float factor, const Four& four) {
#pragma unroll
  for (int c = 0; c < Four::kSize; ++c) sum.at[c] += factor * four.at[c];
}

// Of the products of a tile (rows, kDepth) with one (kDepth, columns), those of
// a thread: kCount rows from `row` on, kRowsAtOnce apart, and four neighbouring
// columns from `column` on of each 32.
template <int kDepth, int kCount, int kParts, class Left, class Right>
__device__ void multiply(Left& left, Right& right, int row, int column,
                         Four (&sums)[kCount][kParts]) {
#pragma unroll
  for (int k = 0; k < kDepth; k += Four::kSize) {
    Four a[kCount];
#pragma unroll
    for (int r = 0; r < kCount; ++r) a[r] = left.four(row + r * kRowsAtOnce, k);
#pragma unroll
    for (int j = 0; j < Four::kSize; ++j) {
#pragma unroll
      for (int p = 0; p < kParts; ++p) {
        const auto b = right.four(k + j, column + p * kIn);
#pragma unroll
        for (int r = 0; r < kCount; ++r) add_product(sums[r][p], a[r].at[j], b);
      }
    }
  }
}

template <int kOut>
__global__ void __launch_bounds__(kThreads)
    forward(int64_t rows, int64_t with_bias, const float* x,
            const float* weight, const float* bias, float* y) {
  constexpr int kParts = kOut / kIn;
  __shared__ Tile<kIn, kForwardRows> xs;
  __shared__ Tile<kOut, kIn> ws;  // transposed
  const int64_t first = int64_t{blockIdx.x} * kForwardRows;
  xs.load(x + first * kIn, rows - first);
  for (int k = threadIdx.x; k < kIn * kOut; k += kThreads) {
    *ws.at(k % kIn, k / kIn) = weight[k];
  }
  __syncthreads();
  const int column = threadIdx.x % kLanes * Four::kSize;
  const int row = threadIdx.x / kLanes;
  Four sums[kRowsOfThread][kParts] = {};
  multiply<kIn>(xs, ws, row, column, sums);
#pragma unroll
  for (int p = 0; p < kParts; ++p) {
    const auto b = load_pack<Four>(bias + column + p * kIn);
#pragma unroll
    for (int r = 0; r < kRowsOfThread; ++r) {
      const int64_t at = first + row + r * kRowsAtOnce;
      if (at >= rows) continue;
      if (at < with_bias) add_product(sums[r][p], 1, b);
      store_pack(sums[r][p], y + at * kOut + column + p * kIn);
    }
  }
}

constexpr int kTile = 64;  // rows that backward has in shared memory

int64_t tiles_of_block(int64_t rows) {
  return blocks_for(blocks_for(rows, kTile), kManyBlocks);
}
int64_t backward_blocks(int64_t rows) {
  return blocks_for(blocks_for(rows, kTile), tiles_of_block(rows));
}

// dx = dy W of the rows in `ds`.
template <int kOut>
__device__ void input_gradients(Tile<kOut, kTile>& ds, Tile<kIn, kOut>& ws,
                                int64_t count, float* dx) {
  constexpr int kCount = kTile / kRowsAtOnce;
  const int column = threadIdx.x % kLanes * Four::kSize;
  const int row = threadIdx.x / kLanes;
  Four sums[kCount][1] = {};
  multiply<kOut>(ds, ws, row, column, sums);
#pragma unroll
  for (int r = 0; r < kCount; ++r) {
    const int at = row + r * kRowsAtOnce;
    if (at < count) store_pack(sums[r][0], dx + at * kIn + column);
  }
}

// The part of dW and db that a block's rows make. A thread has four by four
// entries of dW and one of db, each over a part of the rows.
template <int kOut>
struct WeightSums {
  static constexpr int kGroups = kOut / Four::kSize;
  static constexpr int kParts = kThreads / kLanes / kGroups;
  static constexpr int kBiasParts = kThreads / kOut;
  static constexpr int kWeights = kOut * kIn;

  const int in = threadIdx.x % kLanes * Four::kSize;
  const int out = threadIdx.x / kLanes % kGroups * Four::kSize;
  const int part = threadIdx.x / kLanes / kGroups;
  Four weights[Four::kSize] = {};
  float bias = 0;

  __device__ void add(Tile<kIn, kTile>& xs, Tile<kOut, kTile>& ds,
                      int64_t with_bias) {
#pragma unroll 8
    for (int row = part; row < kTile; row += kParts) {
      const auto d = ds.four(row, out), v = xs.four(row, in);
#pragma unroll
      for (int j = 0; j < Four::kSize; ++j) add_product(weights[j], d.at[j], v);
    }
    for (int row = threadIdx.x / kOut; row < kTile; row += kBiasParts) {
      if (row < with_bias) bias += *ds.at(row, threadIdx.x % kOut);
    }
  }

  // Sums over the parts, by way of shared memory, to `to` (kWeights + kOut).
  __device__ void store(float* shared, float* to) const {
    float* biases = shared + kParts * kWeights;
#pragma unroll
    for (int j = 0; j < Four::kSize; ++j) {
      store_pack(weights[j], shared + part * kWeights + (out + j) * kIn + in);
    }
    biases[threadIdx.x] = bias;
    __syncthreads();
    for (int k = threadIdx.x; k < kWeights; k += kThreads) {
      float sum = 0;
      for (int p = 0; p < kParts; ++p) sum += shared[p * kWeights + k];
      to[k] = sum;
    }
    if (threadIdx.x >= kOut) return;
    float sum = 0;
    for (int p = 0; p < kBiasParts; ++p) sum += biases[p * kOut + threadIdx.x];
    to[kWeights + threadIdx.x] = sum;
  }
};

template <int kOut>
__global__ void __launch_bounds__(kThreads)
    backward(int64_t rows, int64_t with_bias, int64_t tiles, const float* x,
             const float* dy, const float* weight, float* dx, float* partials) {
  using Sums = WeightSums<kOut>;
  struct Tiles {
    Tile<kIn, kTile> xs;
    Tile<kOut, kTile> ds;
    Tile<kIn, kOut> ws;
  };
  __shared__ union {
    Tiles tiles;
    float sums[Sums::kParts * Sums::kWeights + kThreads];
  } shared;
  auto& [xs, ds, ws] = shared.tiles;
  ws.load(weight, kOut);
  Sums sums;
  for (int64_t n = 0; n < tiles; ++n) {
    const int64_t first = (blockIdx.x * tiles + n) * kTile;
    if (first >= rows) break;
    __syncthreads();  // all have done with the tiles before
    xs.load(x + first * kIn, rows - first);
    ds.load(dy + first * kOut, rows - first);
    __syncthreads();
    if (dx) input_gradients(ds, ws, rows - first, dx + first * kIn);
    sums.add(xs, ds, with_bias - first);
  }
  __syncthreads();
  sums.store(shared.sums,
             partials + blockIdx.x * int64_t{Sums::kWeights + kOut});
}

template <class Launch>
void with_outputs(int64_t outputs, const Launch& launch) {
  if (outputs == kIn) {
    launch(std::integral_constant<int, kIn>());
  } else {
    launch(std::integral_constant<int, 2 * kIn>());
  }
}

}  // namespace

bool small_linear_has(int64_t inputs, int64_t outputs) {
  return inputs == kIn && (outputs == kIn || outputs == 2 * kIn);
}

void launch_small_linear(int64_t rows, int64_t with_bias, int64_t outputs,
                         const float* x, const float* weight, const float* bias,
                         float* y, cudaStream_t stream) {
  with_outputs(outputs, [&](auto out) {
    forward<out.value><<<blocks_for(rows, kForwardRows), kThreads, 0, stream>>>(
        rows, with_bias, x, weight, bias, y);
  });
}

int64_t small_linear_workspace(int64_t rows, int64_t outputs) {
  return backward_blocks(rows) * (outputs * kIn + outputs);
}

void launch_small_linear_backward(int64_t rows, int64_t with_bias,
                                  int64_t outputs, const float* x,
                                  const float* dy, const float* weight,
                                  float* dx, float* dweight, float* dbias,
                                  float* workspace, cudaStream_t stream) {
  const int64_t blocks = backward_blocks(rows), weights = outputs * kIn;
  with_outputs(outputs, [&](auto out) {
    backward<out.value><<<blocks, kThreads, 0, stream>>>(
        rows, with_bias, tiles_of_block(rows), x, dy, weight, dx, workspace);
  });
  launch_store_partials(workspace, blocks, weights + outputs, weights, dweight,
                        dbias, stream);
}

}  // namespace propagator::kernels
