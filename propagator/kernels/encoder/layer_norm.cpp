#include "propagator/kernels/encoder/layer_norm.h"

#include "propagator/kernels/cuda.h"

namespace propagator::kernels {

LayerNormed layer_norm(const torch::Tensor& x, const torch::Tensor& weight,
                       const torch::Tensor& bias, double eps) {
  if (x.is_cuda()) return layer_norm_cuda(x, weight, bias, eps);
  const auto [y, mean, rstd] =
      torch::native_layer_norm(x, {x.size(1)}, weight, bias, eps);
  return {y, mean, rstd};
}

torch::Tensor layer_norm_backward(
    const torch::Tensor& dy, const torch::Tensor& x, const LayerNormed& forward,
    const torch::Tensor& weight, const torch::Tensor& residual,
    torch::Tensor dweight, torch::Tensor dbias, Beside& beside) {
  if (x.is_cuda()) {
    return layer_norm_backward_cuda(dy, x, forward, weight, residual, dweight,
                                    dbias, beside);
  }
  const auto scaled = (x - forward.mean) * forward.rstd;
  const auto g = dy * weight;
  if (dweight.defined()) dweight.add_((dy * scaled).sum(0));
  if (dbias.defined()) dbias.add_(dy.sum(0));
  const auto mean = [](const torch::Tensor& a) {
    return a.mean(1, /*keepdim=*/true);
  };
  const auto dx = forward.rstd * (g - mean(g) - scaled * mean(g * scaled));
  return residual.defined() ? residual + dx : dx;
}

}  // namespace propagator::kernels
