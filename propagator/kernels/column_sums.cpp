#include "propagator/kernels/column_sums.h"

#include "propagator/kernels/cuda.h"

namespace propagator::kernels {

torch::Tensor column_sums(const torch::Tensor& a) {
  if (!a.is_cuda()) return a.sum(0);
  const auto out = torch::empty({a.size(1)}, a.options());
  column_sums_cuda(out, a, /*adds=*/false);
  return out;
}

void add_column_sums(torch::Tensor out, const torch::Tensor& a) {
  if (a.is_cuda()) {
    column_sums_cuda(out, a, /*adds=*/true);
  } else {
    out.add_(a.sum(0));
  }
}

void relu_backward(torch::Tensor dy, const torch::Tensor& y,
                   torch::Tensor dbias, Beside& beside) {
  if (dy.is_cuda()) {
    relu_backward_cuda(dy, y, dbias, beside);
  } else {
    dy.mul_(y > 0);
    if (dbias.defined()) dbias.add_(dy.sum(0));
  }
}

}  // namespace propagator::kernels
