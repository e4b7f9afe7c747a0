#pragma once

#include <type_traits>

#include "propagator/kernels/masked_mlp.cuh"
#include "propagator/kernels/warp.cuh"

// The network of masked_mlp.h on a few rows in shared memory, by one block; not
// for .cpp files. All threads of the block call each function together.
namespace propagator::kernels::masked_rows {

constexpr int kThreads = 256;
constexpr int kLanes = 8;                  // that share one output
constexpr int64_t kMultiprocessors = 132;  // of the GPUs that this is for
constexpr int64_t kMostBlocks = 2 * kMultiprocessors;  // of a backward pass

// So few rows of a small batch go to each block that all multiprocessors have
// some; of many rows a block takes more, for which it reads each weight once.
inline int quads_for(int64_t rows) {
  return rows <= 8 * kMultiprocessors ? 1 : 4;
}
inline int64_t tiles_for(int64_t rows) {
  return blocks_for(rows, 4 * quads_for(rows));
}
inline int64_t backward_blocks(int64_t rows) {
  const int64_t tiles = tiles_for(rows);
  return tiles < kMostBlocks ? tiles : kMostBlocks;
}

__device__ inline float4 times(float4 a, float4 b) {
  return {a.x * b.x, a.y * b.y, a.z * b.z, a.w * b.w};
}
__device__ inline float4 plus(float4 a, float4 b) {
  return {a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w};
}
__device__ inline void add_product(float4& sum, float factor, float4 a) {
  sum.x += factor * a.x;
  sum.y += factor * a.y;
  sum.z += factor * a.z;
  sum.w += factor * a.w;
}
__device__ inline float sum_of(float4 a) { return (a.x + a.y) + (a.z + a.w); }

// Over the lanes that share an output; all of them get the same bits.
__device__ inline float lane_sum(float value) {
#pragma unroll
  for (int step = 1; step < kLanes; step *= 2) {
    value += __shfl_xor_sync(kWholeWarp, value, step);
  }
  return value;
}

struct Silu {
  float value, slope;

  __device__ explicit Silu(float x) {
    const float share = 1 / (1 + expf(-x));
    value = x * share;
    slope = share * (1 + x * (1 - share));
  }
};

__device__ inline float4 silu(float4 x) {
  return {Silu(x.x).value, Silu(x.y).value, Silu(x.z).value, Silu(x.w).value};
}

// Columns of a tile of 4 · kQuads rows, four rows of a column side by side.
template <int kQuads>
struct Columns {
  float4* at;
  int count;

  __device__ float4& operator()(int quad, int column) const {
    return at[quad * count + column];
  }
  __device__ float& number(int row, int column) const {
    return reinterpret_cast<float*>(&(*this)(row / 4, column))[row % 4];
  }
  // Columns first, first + 1, … from `from` (rows, columns). Rows from `rows`
  // on are like the last one, so that no number is worse than those of rows
  // that are there, or zero, so that they add nothing to a gradient.
  template <bool kZero = false>
  __device__ void load(int first, const float* from, int rows,
                       int columns) const {
    for (int k = threadIdx.x; k < 4 * kQuads * columns; k += kThreads) {
      const int row = k / columns, column = k % columns;
      const float value = from[min(row, rows - 1) * columns + column];
      number(row, first + column) = kZero && row >= rows ? 0 : value;
    }
  }
  __device__ void store(int first, float* to, int rows, int columns) const {
    for (int k = threadIdx.x; k < rows * columns; k += kThreads) {
      to[k] = number(k / columns, first + k % columns);
    }
  }
};

// Shared memory, handed out one piece after the other.
template <int kQuads>
struct Pieces {
  float4* next;

  __device__ Columns<kQuads> take(int columns) {
    const Columns<kQuads> piece{next, columns};
    next += kQuads * columns;
    return piece;
  }
};

// Calls store(quad, o, b_o + Σ_i w_oi m_oi from_i) for each output o.
template <int kQuads, class Store>
__device__ void apply_layer(const MaskedLayer& layer, int in, int out,
                            Columns<kQuads> from, Store store) {
  const int part = threadIdx.x % kLanes;
  for (int begin = 0; begin < out; begin += kThreads / kLanes) {
    const int o = begin + threadIdx.x / kLanes;
    float4 sum[kQuads] = {};
    if (o < out) {
      const float *weight = layer.weight + o * in, *mask = layer.mask + o * in;
#pragma unroll 8
      for (int i = part; i < in; i += kLanes) {
        const float w = __ldg(weight + i) * __ldg(mask + i);
#pragma unroll
        for (int q = 0; q < kQuads; ++q) add_product(sum[q], w, from(q, i));
      }
    }
#pragma unroll
    for (int q = 0; q < kQuads; ++q) {
      sum[q] = {lane_sum(sum[q].x), lane_sum(sum[q].y), lane_sum(sum[q].z),
                lane_sum(sum[q].w)};
    }
    if (o >= out || part > 0) continue;
    const float bias = __ldg(layer.bias + o);
#pragma unroll
    for (int q = 0; q < kQuads; ++q) {
      store(q, o, plus(sum[q], {bias, bias, bias, bias}));
    }
  }
}

// What the forward pass has in shared memory besides x.
template <int kQuads>
struct Forward {
  Columns<kQuads> a, from, to;

  __device__ Forward(Pieces<kQuads>& pieces, const MaskedShape& s)
      : a(pieces.take(s.width)),
        from(pieces.take(s.width)),
        to(pieces.take(s.width)) {}

  static int columns(const MaskedShape& s) { return 3 * s.width; }

  // Calls store(quad, o, y_o); `saved`, unless null, gets the a_n.
  template <class Store>
  __device__ void run(const MaskedLayer* layers, const MaskedShape& s,
                      Columns<kQuads> x, float4* saved, Store store) {
    for (int n = 0; n + 1 < s.layers; ++n) {
      const auto keep = [&](int q, int o, float4 value) {
        if (n > 0) value = plus(a(q, o), value);
        a(q, o) = value;
        to(q, o) = silu(value);
        if (saved) saved[(n * kQuads + q) * s.width + o] = value;
      };
      apply_layer(layers[n], n == 0 ? s.in : s.width, s.width,
                  n == 0 ? x : from, keep);
      __syncthreads();
      const auto other = from;
      from = to;
      to = other;
    }
    apply_layer(layers[s.layers - 1], s.width, s.out, from, store);
  }
};

// What the backward pass has in shared memory besides x and dy.
template <int kQuads>
struct Backward {
  Columns<kQuads> value, slope, da, scratch;
  bool adds;  // to what the partial sums are already

  __device__ Backward(Pieces<kQuads>& pieces, const MaskedShape& s)
      : value(pieces.take(s.width)),
        slope(pieces.take(s.width)),
        da(pieces.take(s.width)),
        scratch(pieces.take(kThreads)),
        adds(false) {}

  static int columns(const MaskedShape& s) { return 3 * s.width + kThreads; }

  // From dy to dx, unless there is no room for that; gradients of weights and
  // biases, over the rows of the tile, to `sums`.
  __device__ void run(const MaskedLayer* layers, const MaskedShape& s,
                      Columns<kQuads> x, Columns<kQuads> dy,
                      const float4* saved, float* sums, Columns<kQuads> dx) {
    for (int n = s.layers - 1; n > 0; --n) {
      const bool last = n == s.layers - 1;
      activate(saved + (n - 1) * kQuads * s.width, s.width);
      __syncthreads();
      const int out = last ? s.out : s.width;
      add_gradients(layers[n], s.width, out, value, last ? dy : da,
                    sums + s.offset(n));
      multiply_back(layers[n], s.width, out, last ? dy : da);
      __syncthreads();
      gather(s.width, [&](int q, int i, float4 sum) {
        sum = times(sum, slope(q, i));
        da(q, i) = last ? sum : plus(da(q, i), sum);
      });
      __syncthreads();
    }
    add_gradients(layers[0], s.in, s.width, x, da, sums);
    if (dx.at == nullptr) return;
    multiply_back(layers[0], s.in, s.width, da);
    __syncthreads();
    gather(s.in, [&](int q, int i, float4 sum) { dx(q, i) = sum; });
    __syncthreads();
  }

  __device__ void put(float* to, float sum) const {
    *to = adds ? *to + sum : sum;
  }

 private:
  __device__ void activate(const float4* a, int width) {
    for (int k = threadIdx.x; k < kQuads * width; k += kThreads) {
      const Silu x(a[k].x), y(a[k].y), z(a[k].z), w(a[k].w);
      value.at[k] = {x.value, y.value, z.value, w.value};
      slope.at[k] = {x.slope, y.slope, z.slope, w.slope};
    }
  }

  __device__ void add_gradients(const MaskedLayer& layer, int in, int out,
                                Columns<kQuads> x, Columns<kQuads> dy,
                                float* to) {
    for (int o = threadIdx.x / 32; o < out; o += kThreads / 32) {
      float4 d[kQuads];
#pragma unroll
      for (int q = 0; q < kQuads; ++q) d[q] = dy(q, o);
      for (int i = threadIdx.x % 32; i < in; i += 32) {
        float sum = 0;
#pragma unroll
        for (int q = 0; q < kQuads; ++q) sum += sum_of(times(d[q], x(q, i)));
        put(to + o * in + i, sum * __ldg(layer.mask + o * in + i));
      }
      if (threadIdx.x % 32 > 0) continue;
      float sum = 0;
#pragma unroll
      for (int q = 0; q < kQuads; ++q) sum += sum_of(d[q]);
      put(to + out * in + o, sum);
    }
  }

  // Threads are shared out to inputs, a power of two that has room for them,
  // and to parts of the outputs.
  static __device__ int inputs_for(int in) {
    int room = 8;
    while (room < in) room *= 2;
    return room;
  }
  // Into scratch, of each thread Σ_o w_oi m_oi dy_o over its part of o.
  __device__ void multiply_back(const MaskedLayer& layer, int in, int out,
                                Columns<kQuads> dy) {
    const int room = inputs_for(in), parts = kThreads / room;
    const int i = threadIdx.x % room;
    float4 sum[kQuads] = {};
    if (i < in) {
#pragma unroll 8
      for (int o = threadIdx.x / room; o < out; o += parts) {
        const float w =
            __ldg(layer.weight + o * in + i) * __ldg(layer.mask + o * in + i);
#pragma unroll
        for (int q = 0; q < kQuads; ++q) add_product(sum[q], w, dy(q, o));
      }
    }
#pragma unroll
    for (int q = 0; q < kQuads; ++q) scratch(q, threadIdx.x) = sum[q];
  }
  // Calls store(quad, i, sum) with the sums over the parts.
  template <class Store>
  __device__ void gather(int in, Store store) {
    const int room = inputs_for(in);
    for (int k = threadIdx.x; k < kQuads * in; k += kThreads) {
      const int q = k / in, i = k % in;
      float4 sum = scratch(q, i);
      for (int at = room + i; at < kThreads; at += room) {
        sum = plus(sum, scratch(q, at));
      }
      store(q, i, sum);
    }
  }
};

// Starts `kernel` with so many columns in shared memory.
template <int kQuads, class Kernel, class... Arguments>
void launch(Kernel kernel, int64_t blocks, int columns, cudaStream_t stream,
            const Arguments&... arguments) {
  const size_t bytes = sizeof(float4) * kQuads * columns;
  if (bytes > 48 * 1024) {
    cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                         static_cast<int>(bytes));
  }
  kernel<<<static_cast<unsigned>(blocks), kThreads, bytes, stream>>>(
      arguments...);
}

// Calls body with the number of quads of rows in a tile, as a constant.
template <class Body>
void with_quads(int64_t rows, const Body& body) {
  if (quads_for(rows) == 1) {
    body(std::integral_constant<int, 1>());
  } else {
    body(std::integral_constant<int, 4>());
  }
}

}  // namespace propagator::kernels::masked_rows
