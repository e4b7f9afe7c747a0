#pragma once

#include <ATen/Dispatch.h>
#include <ATen/cuda/CUDAContext.h>
#include <torch/types.h>

// What cuda.cpp, green_cuda.cpp and jet_cuda.cpp share: from tensors to
// pointers and a stream.
namespace propagator::kernels {

using at::cuda::getCurrentCUDAStream;

// Runs `launch` with a value of the tensor's type, and checks the launch.
template <class Launch>
void dispatch(const torch::Tensor& x, const Launch& launch) {
  AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "a fused operator",
                             [&] { launch(scalar_t()); });
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

template <class Real>
Real* pointer(const torch::Tensor& x) {
  return x.data_ptr<Real>();
}

}  // namespace propagator::kernels
