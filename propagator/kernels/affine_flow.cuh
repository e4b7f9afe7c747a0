#pragma once

#include "propagator/kernels/masked_mlp.cuh"

namespace propagator::kernels {

// Maps, each with a network of the same shape, which takes the variables and
// what is given, `net.in` together, and gives two numbers of each variable.
struct FlowShape {
  int maps, variables;
  MaskedShape net;
  float most;  // size of the logarithm of a scale

  // Gradients of a map: of its network, then of shift and log_scale.
  __host__ __device__ int parameters() const {
    return net.parameters() + 2 * variables;
  }
};

constexpr int kFlowMostMaps = 48;
struct FlowMaps {
  MaskedLayers layers;  // of all maps, one after the other
  const float *shift[kFlowMostMaps], *log_scale[kFlowMostMaps];
};

// How many numbers a forward pass leaves for the backward pass, and how many a
// backward pass needs to work with.
int64_t affine_flow_saved(const FlowShape& shape, int64_t rows);
int64_t affine_flow_workspace(const FlowShape& shape, int64_t rows);

// affine_flow.h in float32, x (rows, D) and given (rows, in - D) → u (rows, D)
// and log_slope (rows); `saved` may be null.
void launch_affine_flow(const FlowShape& shape, const FlowMaps& maps,
                        int64_t rows, const float* x, const float* given,
                        float* u, float* log_slope, float* saved,
                        cudaStream_t stream);
// dgiven may be null; `gradients` gets those of all maps, one after the other.
void launch_affine_flow_backward(const FlowShape& shape, const FlowMaps& maps,
                                 int64_t rows, const float* given, float* saved,
                                 const float* du, const float* dlog_slope,
                                 float* dx, float* dgiven, float* gradients,
                                 float* workspace, cudaStream_t stream);

}  // namespace propagator::kernels
