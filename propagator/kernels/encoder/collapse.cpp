#include "propagator/kernels/encoder/collapse.h"

#include "propagator/kernels/cuda.h"

namespace propagator::kernels {

Collapsed collapse(const torch::Tensor& w, const torch::Tensor& encoding) {
  if (w.is_cuda()) return collapse_cuda(w, encoding);
  return {w.view({w.size(0), encoding.size(0), -1}).sum(2),
          torch::mv(w, encoding.flatten())};
}

void collapse_backward(torch::Tensor dw, const torch::Tensor& dweight,
                       const torch::Tensor& doffset,
                       const torch::Tensor& encoding) {
  if (dw.is_cuda()) {
    collapse_backward_cuda(dw, dweight, doffset, encoding);
    return;
  }
  auto parts = dw.view({dw.size(0), encoding.size(0), -1});
  parts.add_(dweight.unsqueeze(2));
  dw.addr_(doffset, encoding.flatten());
}

}  // namespace propagator::kernels
