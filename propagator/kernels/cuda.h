#pragma once

#include "propagator/kernels/adam.h"

namespace propagator::kernels {

// The CUDA side of the fused operators. cuda.cpp unpacks tensors and calls the
// .cu files, which know pointers and a stream and no libtorch; in a build
// without CUDA no_cuda.cpp takes its place, and nothing calls it.
void adam_cuda(torch::Tensor w, const torch::Tensor& grad, torch::Tensor m,
               torch::Tensor v, const AdamStep& step,
               const torch::Tensor& varying, const torch::Tensor& grad_scale);

}  // namespace propagator::kernels
