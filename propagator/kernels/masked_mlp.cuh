#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace propagator::kernels {

// One layer: weight and mask (out, in), bias (out).
struct MaskedLayer {
  const float *weight, *bias, *mask;
};

// All layers but the first and the last are (width, width).
struct MaskedShape {
  int in, width, out, layers;

  // Where the gradients of a layer begin among those of all: weight, then bias.
  __host__ __device__ int offset(int layer) const {
    return layer == 0 ? 0
                      : width * (in + 1) + (layer - 1) * width * (width + 1);
  }
  __host__ __device__ int parameters() const {
    return offset(layers - 1) + out * (width + 1);
  }
};

// Of in, width and out, and of layers, which are arguments of a kernel.
constexpr int kMaskedWidest = 256;
constexpr int kMaskedMostLayers = 96;
struct MaskedLayers {
  MaskedLayer at[kMaskedMostLayers];
};

// How many numbers a forward pass leaves for the backward pass, and how many a
// backward pass needs to work with.
int64_t masked_mlp_saved(const MaskedShape& shape, int64_t rows);
int64_t masked_mlp_workspace(const MaskedShape& shape, int64_t rows);

// masked_mlp.h in float32, x (rows, in) → y (rows, out); `saved` may be null.
void launch_masked_mlp(const MaskedShape& shape, const MaskedLayers& layers,
                       int64_t rows, const float* x, float* y, float* saved,
                       cudaStream_t stream);
// dx may be null; `gradients` gets those of all layers, one after the other.
void launch_masked_mlp_backward(const MaskedShape& shape,
                                const MaskedLayers& layers, int64_t rows,
                                const float* x, const float* saved,
                                const float* dy, float* dx, float* gradients,
                                float* workspace, cudaStream_t stream);

}  // namespace propagator::kernels
