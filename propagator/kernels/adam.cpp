#include "propagator/kernels/adam.h"

#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>

#include <cmath>

#include "propagator/kernels/cuda.h"

namespace propagator::kernels {
namespace {

template <class Real>
void adam_range(Real* w, const Real* grad, Real* m, Real* v, int64_t n,
                const AdamStep& s) {
  const Real b1 = s.beta1, b2 = s.beta2, c1 = 1 - s.beta1, c2 = 1 - s.beta2;
  const Real scale = s.grad_scale, eps = s.eps;
  const Real rate = s.lr / s.correction1;
  const Real root = 1 / std::sqrt(s.correction2);
  const Real keep = 1 - s.lr * s.weight_decay;
  for (int64_t i = 0; i < n; ++i) {
    const Real g = scale * grad[i];
    m[i] = b1 * m[i] + c1 * g;
    v[i] = b2 * v[i] + c2 * g * g;
    w[i] = keep * w[i] - rate * m[i] / (root * std::sqrt(v[i]) + eps);
  }
}

// The formula in tensor operations. What changes from step to step is a number
// or a scalar tensor.
template <class Number>
void adam_plain(torch::Tensor& w, const torch::Tensor& grad, torch::Tensor& m,
                torch::Tensor& v, const AdamStep& s, const Number& lr,
                const Number& correction1, const Number& correction2,
                const Number& grad_scale) {
  const auto g = grad * grad_scale;
  m.mul_(s.beta1).add_(g, 1 - s.beta1);
  v.mul_(s.beta2).addcmul_(g, g, 1 - s.beta2);
  const auto direction = m / (v / correction2).sqrt_().add_(s.eps);
  w.mul_(1 - lr * s.weight_decay);
  w.sub_(direction * (lr / correction1));
}

}  // namespace

void adam_reference(torch::Tensor w, const torch::Tensor& grad, torch::Tensor m,
                    torch::Tensor v, const AdamStep& s) {
  adam_plain(w, grad, m, v, s, s.lr, s.correction1, s.correction2,
             s.grad_scale);
}

ScaledGradient scale_gradient(const torch::Tensor& grad,
                              const GradientScale& scale) {
  const auto norm = grad.norm().to(torch::kFloat64) * scale.share;
  return {norm, scale.clip > 0 ? scale.share * (scale.clip / norm).clamp_max(1)
                               : torch::full_like(norm, scale.share)};
}

torch::Tensor adam_on_device(torch::Tensor w, const torch::Tensor& grad,
                             torch::Tensor m, torch::Tensor v,
                             const AdamStep& s, const torch::Tensor& varying,
                             const GradientScale& scale) {
  if (w.is_cuda()) return adam_cuda(w, grad, m, v, s, varying, scale);
  const auto now = varying.to(w.dtype());
  const auto scaled = scale_gradient(grad, scale);
  adam_plain<torch::Tensor>(w, grad, m, v, s, now[0], now[1], now[2],
                            scaled.factor.to(w.dtype()));
  return scaled.norm;
}

void adam(torch::Tensor w, const torch::Tensor& grad, torch::Tensor m,
          torch::Tensor v, const AdamStep& step) {
  if (!w.is_cpu()) {
    adam_reference(w, grad, m, v, step);
    return;
  }
  AT_DISPATCH_FLOATING_TYPES(w.scalar_type(), "adam", [&] {
    auto* pw = w.data_ptr<scalar_t>();
    const auto* pg = grad.data_ptr<scalar_t>();
    auto* pm = m.data_ptr<scalar_t>();
    auto* pv = v.data_ptr<scalar_t>();
    at::parallel_for(0, w.numel(), 1 << 15, [&](int64_t begin, int64_t end) {
      adam_range(pw + begin, pg + begin, pm + begin, pv + begin, end - begin,
                 step);
    });
  });
}

}  // namespace propagator::kernels
