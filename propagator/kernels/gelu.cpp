#include "propagator/kernels/gelu.h"

#include <ATen/Parallel.h>
#include <torch/utils.h>

#include "propagator/core/torch_compat.h"
#include "propagator/kernels/list_function.h"
#include "propagator/kernels/normal_cdf.h"

namespace propagator::kernels {
namespace {

using torch::Tensor;
using Tensors = torch::autograd::variable_list;

constexpr int64_t kNumbersAtOnce = 4096;

// Values, and slopes unless `slope` is null.
template <class Real>
void gelu_of(const Real* x, Real* value, Real* slope, int64_t count) {
  static const ScaledErfc scaled;
  at::parallel_for(0, count, kNumbersAtOnce, [&](int64_t from, int64_t to) {
    if (slope == nullptr) {
      for (int64_t n = from; n < to; ++n) {
        value[n] = x[n] * normal_at(x[n], scaled).below;
      }
      return;
    }
    for (int64_t n = from; n < to; ++n) {
      const auto at = normal_at(x[n], scaled);
      value[n] = x[n] * at.below;
      slope[n] = at.below + x[n] * at.density;
    }
  });
}

template <class Real>
Tensor fused_gelu(const Tensor& x) {
  const auto values = x.detach().contiguous();
  const auto y = torch::empty_like(values);
  const bool wanted = torch::autograd::compute_requires_grad(x);
  const auto slope = wanted ? torch::empty_like(values) : Tensor();
  gelu_of(values.data_ptr<Real>(), y.data_ptr<Real>(),
          wanted ? slope.data_ptr<Real>() : nullptr, values.numel());
  if (!wanted) return y;
  ListFunction::record(
      {y}, {x},
      [slope](const Tensors& gradients, const ListFunction&) -> Tensors {
        return {gradients[0] * slope};
      });
  return y;
}

}  // namespace

Tensor gelu(const Tensor& x) {
  if (x.is_cpu() && !autocast_enabled(x.device())) {
    if (x.scalar_type() == torch::kFloat32) return fused_gelu<float>(x);
    if (x.scalar_type() == torch::kFloat64) return fused_gelu<double>(x);
  }
  return torch::gelu(x);
}

}  // namespace propagator::kernels
