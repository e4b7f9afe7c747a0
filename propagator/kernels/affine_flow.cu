#include "propagator/kernels/affine_flow.cuh"
#include "propagator/kernels/column_sums.cuh"
#include "propagator/kernels/masked_rows.cuh"

namespace propagator::kernels {
namespace {

using namespace masked_rows;

// What one map leaves of a tile: its inputs, its network's outputs and the a_n.
__host__ __device__ int saved_columns(const FlowShape& s) {
  return s.variables + s.net.out + (s.net.layers - 1) * s.net.width;
}

// The columns of map m and tile t in what all maps left of all tiles.
template <int kQuads>
__device__ Columns<kQuads> saved_inputs(const FlowShape& s, float* saved,
                                        int64_t tiles, int m, int64_t t) {
  return {reinterpret_cast<float4*>(saved) +
              (m * tiles + t) * kQuads * saved_columns(s),
          s.variables};
}

template <int kQuads>
__device__ Columns<kQuads> columns_behind(Columns<kQuads> columns, int count) {
  return {columns.at + kQuads * columns.count, count};
}

// y = (x - mean) exp(log_slope), where log_slope = -most tanh(raw / most).
struct Affine {
  float bend, log_slope, scale;

  __device__ Affine(float raw, float most)
      : bend(tanhf(raw / most)),
        log_slope(-most * bend),
        scale(expf(log_slope)) {}
};

template <int kQuads>
__global__ void __launch_bounds__(kThreads)
    flow_forward(FlowShape s, FlowMaps maps, int64_t rows, const float* x,
                 const float* given, float* u, float* log_slope, float* saved) {
  extern __shared__ float4 flow_shared[];
  constexpr int kRows = 4 * kQuads;
  const int d_count = s.variables, given_count = s.net.in - s.variables;
  Pieces<kQuads> pieces{flow_shared};
  const auto known = pieces.take(s.net.in), y = pieces.take(s.net.out);
  const auto slopes = pieces.take(d_count);
  Forward<kQuads> net(pieces, s.net);
  const int64_t tile = blockIdx.x, first = tile * kRows;
  const int count = static_cast<int>(min(rows - first, int64_t{kRows}));
  known.load(0, x + first * d_count, count, d_count);
  known.load(d_count, given + first * given_count, count, given_count);
  for (int k = threadIdx.x; k < kQuads * d_count; k += kThreads) {
    slopes.at[k] = {};
  }
  __syncthreads();
  for (int m = 0; m < s.maps; ++m) {
    Columns<kQuads> inputs{}, outputs{}, hidden{};
    if (saved) {
      inputs = saved_inputs<kQuads>(s, saved, gridDim.x, m, tile);
      outputs = columns_behind(inputs, s.net.out);
      hidden = columns_behind(outputs, s.net.width);
    }
    for (int k = threadIdx.x; k < kRows * d_count; k += kThreads) {
      const int row = k % kRows, d = k / kRows;
      const float log_scale = __ldg(maps.log_scale[m] + d);
      float& at = known.number(row, d);
      at = (at - __ldg(maps.shift[m] + d)) * expf(log_scale);
      slopes.number(row, d) += log_scale;
      if (saved) inputs.number(row, d) = at;
    }
    __syncthreads();
    net.run(maps.layers.at + m * s.net.layers, s.net, known, hidden.at,
            [&](int q, int o, float4 value) {
              y(q, o) = value;
              if (saved) outputs(q, o) = value;
            });
    __syncthreads();
    for (int k = threadIdx.x; k < kRows * d_count; k += kThreads) {
      const int row = k % kRows, d = k / kRows;
      const Affine affine(y.number(row, 2 * d + 1), s.most);
      float& at = known.number(row, d);
      at = (at - y.number(row, 2 * d)) * affine.scale;
      slopes.number(row, d) += affine.log_slope;
    }
    // The same thread has the same numbers in the next map.
  }
  __syncthreads();
  known.store(0, u + first * d_count, count, d_count);
  if (threadIdx.x >= count) return;
  float sum = 0;
  for (int d = 0; d < d_count; ++d) sum += slopes.number(threadIdx.x, d);
  log_slope[first + threadIdx.x] = sum;
}

// What a block of the backward pass has in shared memory.
template <int kQuads>
struct FlowBackward {
  static constexpr int kRows = 4 * kQuads;

  const FlowShape& s;
  Columns<kQuads> known, dknown, dy, dvalue, dlog_slope, dgiven;
  Backward<kQuads> net;

  __device__ FlowBackward(const FlowShape& shape, Pieces<kQuads> pieces)
      : s(shape),
        known(pieces.take(s.net.in)),
        dknown(pieces.take(s.net.in)),
        dy(pieces.take(s.net.out)),
        dvalue(pieces.take(s.variables)),
        dlog_slope(pieces.take(1)),
        dgiven(pieces.take(s.net.in - s.variables)),
        net(pieces, s.net) {}

  static int columns(const FlowShape& s) {
    return 3 * s.net.in + s.net.out + 1 + Backward<kQuads>::columns(s.net);
  }

  // Calls body(row, d) for each variable of each row: always the same thread.
  template <class Body>
  __device__ void for_each(Body body) const {
    for (int k = threadIdx.x; k < kRows * s.variables; k += kThreads) {
      body(k % kRows, k / kRows);
    }
  }

  // From dvalue behind a map to dvalue before it; `sums` gets its gradients.
  __device__ void run(const MaskedLayer* layers, const float* log_scale,
                      Columns<kQuads> inputs, float* sums) {
    const auto outputs = columns_behind(inputs, s.net.out);
    for_each([&](int row, int d) {
      const Affine affine(outputs.number(row, 2 * d + 1), s.most);
      const float at = inputs.number(row, d);
      float& dv = dvalue.number(row, d);
      known.number(row, d) = at;
      const float through = dv * affine.scale;
      const float dlog = through * (at - outputs.number(row, 2 * d)) +
                         dlog_slope.number(row, 0);
      dy.number(row, 2 * d) = -through;
      dy.number(row, 2 * d + 1) = -dlog * (1 - affine.bend * affine.bend);
      dv = through;
    });
    __syncthreads();
    net.run(layers, s.net, known, dy, columns_behind(outputs, s.net.width).at,
            sums, dknown);
    for_each([&](int row, int d) {
      dvalue.number(row, d) += dknown.number(row, d);
    });
    for (int k = threadIdx.x; k < kQuads * dgiven.count; k += kThreads) {
      const int q = k / dgiven.count, c = k % dgiven.count;
      dgiven(q, c) = plus(dgiven(q, c), dknown(q, s.variables + c));
    }
    __syncthreads();
    scale_back(log_scale, sums + s.net.parameters());
    __syncthreads();
  }

 private:
  // Through (x - shift) exp(log_scale): the sums over the rows of a variable
  // are one thread's.
  __device__ void scale_back(const float* log_scale, float* sums) const {
    for (int d = threadIdx.x; d < s.variables; d += kThreads) {
      const float scale = expf(__ldg(log_scale + d));
      float dshift = 0, dlog_scale = 0;
      for (int row = 0; row < kRows; ++row) {
        float& dv = dvalue.number(row, d);
        dlog_scale += dv * known.number(row, d) + dlog_slope.number(row, 0);
        dv *= scale;
        dshift -= dv;
      }
      net.put(sums + d, dshift);
      net.put(sums + s.variables + d, dlog_scale);
    }
  }
};

// A block takes every gridDim.x-th tile, and sums the gradients of its rows.
template <int kQuads>
__global__ void __launch_bounds__(kThreads)
    flow_backward(FlowShape s, FlowMaps maps, int64_t rows, const float* given,
                  float* saved, const float* du, const float* dlog_slope,
                  float* dx, float* dgiven, float* partials) {
  extern __shared__ float4 flow_shared[];
  FlowBackward<kQuads> work(s, Pieces<kQuads>{flow_shared});
  constexpr int kRows = 4 * kQuads;
  const int d_count = s.variables, given_count = s.net.in - s.variables;
  const int64_t tiles = (rows + kRows - 1) / kRows;
  float* sums = partials + int64_t{blockIdx.x} * s.maps * s.parameters();
  for (int64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    const int64_t first = tile * kRows;
    const int count = static_cast<int>(min(rows - first, int64_t{kRows}));
    work.dvalue.template load<true>(0, du + first * d_count, count, d_count);
    work.dlog_slope.template load<true>(0, dlog_slope + first, count, 1);
    work.known.load(d_count, given + first * given_count, count, given_count);
    for (int k = threadIdx.x; k < kQuads * given_count; k += kThreads) {
      work.dgiven.at[k] = {};
    }
    __syncthreads();
    for (int m = s.maps - 1; m >= 0; --m) {
      work.run(maps.layers.at + m * s.net.layers, maps.log_scale[m],
               saved_inputs<kQuads>(s, saved, tiles, m, tile),
               sums + m * s.parameters());
    }
    work.dvalue.store(0, dx + first * d_count, count, d_count);
    if (dgiven) {
      work.dgiven.store(0, dgiven + first * given_count, count, given_count);
    }
    __syncthreads();  // all have done with this tile
    work.net.adds = true;
  }
}

}  // namespace

int64_t affine_flow_saved(const FlowShape& s, int64_t rows) {
  return tiles_for(rows) * 4 * quads_for(rows) * s.maps * saved_columns(s);
}

int64_t affine_flow_workspace(const FlowShape& s, int64_t rows) {
  return backward_blocks(rows) * s.maps * s.parameters();
}

void launch_affine_flow(const FlowShape& s, const FlowMaps& maps, int64_t rows,
                        const float* x, const float* given, float* u,
                        float* log_slope, float* saved, cudaStream_t stream) {
  with_quads(rows, [&](auto quads) {
    launch<quads.value>(flow_forward<quads.value>, tiles_for(rows),
                        s.net.in + s.net.out + s.variables +
                            Forward<quads.value>::columns(s.net),
                        stream, s, maps, rows, x, given, u, log_slope, saved);
  });
}

void launch_affine_flow_backward(const FlowShape& s, const FlowMaps& maps,
                                 int64_t rows, const float* given, float* saved,
                                 const float* du, const float* dlog_slope,
                                 float* dx, float* dgiven, float* gradients,
                                 float* workspace, cudaStream_t stream) {
  const int64_t blocks = backward_blocks(rows);
  with_quads(rows, [&](auto quads) {
    launch<quads.value>(flow_backward<quads.value>, blocks,
                        FlowBackward<quads.value>::columns(s), stream, s, maps,
                        rows, given, saved, du, dlog_slope, dx, dgiven,
                        workspace);
  });
  const int64_t numbers = int64_t{s.maps} * s.parameters();
  launch_store_partials(workspace, blocks, numbers, numbers, gradients,
                        static_cast<float*>(nullptr), stream);
}

}  // namespace propagator::kernels
