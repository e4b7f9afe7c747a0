#include "propagator/kernels/column_sums.cuh"
#include "propagator/kernels/masked_mlp.cuh"
#include "propagator/kernels/masked_rows.cuh"

namespace propagator::kernels {
namespace {

using namespace masked_rows;

template <int kQuads>
__global__ void __launch_bounds__(kThreads)
    masked_forward(MaskedShape s, MaskedLayers layers, int64_t rows,
                   const float* x, float* y, float* saved) {
  extern __shared__ float4 masked_shared[];
  Pieces<kQuads> pieces{masked_shared};
  const auto known = pieces.take(s.in);
  Forward<kQuads> net(pieces, s);
  const int64_t tile = blockIdx.x, first = tile * 4 * kQuads;
  const int count = static_cast<int>(min(rows - first, int64_t{4 * kQuads}));
  known.load(0, x + first * s.in, count, s.in);
  __syncthreads();
  const int hidden = kQuads * (s.layers - 1) * s.width;
  net.run(layers.at, s, known,
          saved ? reinterpret_cast<float4*>(saved) + tile * hidden : nullptr,
          [&](int q, int o, float4 value) {
            const float four[4] = {value.x, value.y, value.z, value.w};
#pragma unroll
            for (int r = 0; r < 4; ++r) {
              if (4 * q + r < count) {
                y[(first + 4 * q + r) * s.out + o] = four[r];
              }
            }
          });
}

// A block takes every gridDim.x-th tile, and sums the gradients of its rows.
template <int kQuads>
__global__ void __launch_bounds__(kThreads)
    masked_backward(MaskedShape s, MaskedLayers layers, int64_t rows,
                    const float* x, const float* saved, const float* dy,
                    float* dx, float* partials) {
  extern __shared__ float4 masked_shared[];
  Pieces<kQuads> pieces{masked_shared};
  const auto known = pieces.take(s.in), dknown = pieces.take(s.in);
  const auto dout = pieces.take(s.out);
  Backward<kQuads> net(pieces, s);
  const int hidden = kQuads * (s.layers - 1) * s.width;
  const int64_t tiles = (rows + 4 * kQuads - 1) / (4 * kQuads);
  for (int64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    const int64_t first = tile * 4 * kQuads;
    const int count = static_cast<int>(min(rows - first, int64_t{4 * kQuads}));
    known.load(0, x + first * s.in, count, s.in);
    dout.template load<true>(0, dy + first * s.out, count, s.out);
    net.run(layers.at, s, known, dout,
            reinterpret_cast<const float4*>(saved) + tile * hidden,
            partials + int64_t{blockIdx.x} * s.parameters(),
            Columns<kQuads>{dx ? dknown.at : nullptr, s.in});
    if (dx) dknown.store(0, dx + first * s.in, count, s.in);
    __syncthreads();  // all have done with this tile
    net.adds = true;
  }
}

}  // namespace

int64_t masked_mlp_saved(const MaskedShape& s, int64_t rows) {
  return tiles_for(rows) * 4 * quads_for(rows) * (s.layers - 1) * s.width;
}

int64_t masked_mlp_workspace(const MaskedShape& s, int64_t rows) {
  return backward_blocks(rows) * s.parameters();
}

void launch_masked_mlp(const MaskedShape& s, const MaskedLayers& layers,
                       int64_t rows, const float* x, float* y, float* saved,
                       cudaStream_t stream) {
  with_quads(rows, [&](auto quads) {
    launch<quads.value>(masked_forward<quads.value>, tiles_for(rows),
                        s.in + Forward<quads.value>::columns(s), stream, s,
                        layers, rows, x, y, saved);
  });
}

void launch_masked_mlp_backward(const MaskedShape& s,
                                const MaskedLayers& layers, int64_t rows,
                                const float* x, const float* saved,
                                const float* dy, float* dx, float* gradients,
                                float* workspace, cudaStream_t stream) {
  const int64_t blocks = backward_blocks(rows);
  with_quads(rows, [&](auto quads) {
    launch<quads.value>(masked_backward<quads.value>, blocks,
                        2 * s.in + s.out + Backward<quads.value>::columns(s),
                        stream, s, layers, rows, x, saved, dy, dx, workspace);
  });
  launch_store_partials(workspace, blocks, int64_t{s.parameters()},
                        int64_t{s.parameters()}, gradients,
                        static_cast<float*>(nullptr), stream);
}

}  // namespace propagator::kernels
