#include "propagator/kernels/cuda.h"

#include <ATen/Dispatch.h>
#include <ATen/cuda/CUDAContext.h>

#include "propagator/kernels/adam.cuh"

namespace propagator::kernels {

void adam_cuda(torch::Tensor w, const torch::Tensor& grad, torch::Tensor m,
               torch::Tensor v, const AdamStep& step,
               const torch::Tensor& varying, const torch::Tensor& grad_scale) {
  const auto stream = at::cuda::getCurrentCUDAStream();
  AT_DISPATCH_FLOATING_TYPES(w.scalar_type(), "adam_cuda", [&] {
    launch_adam<scalar_t>(
        w.data_ptr<scalar_t>(), grad.data_ptr<scalar_t>(),
        m.data_ptr<scalar_t>(), v.data_ptr<scalar_t>(), w.numel(),
        {step.beta1, step.beta2, step.eps, step.weight_decay},
        varying.data_ptr<double>(), grad_scale.data_ptr<double>(), stream);
  });
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

}  // namespace propagator::kernels
