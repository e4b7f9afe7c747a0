#include "propagator/core/error.h"
#include "propagator/kernels/cuda.h"

namespace propagator::kernels {

void adam_cuda(torch::Tensor, const torch::Tensor&, torch::Tensor,
               torch::Tensor, const AdamStep&, const torch::Tensor&,
               const torch::Tensor&) {
  throw DeviceError("[adam] this build has no CUDA");
}

}  // namespace propagator::kernels
