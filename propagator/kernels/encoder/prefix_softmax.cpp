#include "propagator/kernels/encoder/prefix_softmax.h"

#include "propagator/kernels/cuda.h"

namespace propagator::kernels {

void prefix_softmax(torch::Tensor scores, int64_t heads) {
  if (scores.is_cuda()) {
    prefix_softmax_cuda(scores, heads);
    return;
  }
  const auto keys = scores.view({scores.size(0), -1, heads});
  keys.copy_(torch::softmax(keys, 1));
}

void prefix_softmax_backward(torch::Tensor dw, const torch::Tensor& w,
                             int64_t heads) {
  if (dw.is_cuda()) {
    prefix_softmax_backward_cuda(dw, w, heads);
    return;
  }
  const auto weights = w.view({w.size(0), -1, heads});
  const auto keys = dw.view(weights.sizes());
  keys.copy_(weights * (keys - (keys * weights).sum(1, /*keepdim=*/true)));
}

}  // namespace propagator::kernels
