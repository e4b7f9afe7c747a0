#include "propagator/kernels/axis_product.h"

#include <ATen/Parallel.h>
#include <ATen/record_function.h>
#include <torch/utils.h>

#include "propagator/core/torch_compat.h"
#include "propagator/kernels/list_function.h"
#include "propagator/kernels/tile_product.h"

namespace propagator::kernels {
namespace {

using torch::Tensor;
using Tensors = torch::autograd::variable_list;

// y_b = M x_b, or with `transposed` y_b = Mᵀ x_b.
template <class Real>
Tensor blocks_by(const Tensor& matrix, const Tensor& x, bool transposed) {
  const int64_t blocks = x.size(0), from = x.size(1), inner = x.size(2);
  const int64_t to = matrix.size(transposed ? 1 : 0);
  const auto y = torch::empty({blocks, to, inner}, x.options());
  const Real *m = matrix.data_ptr<Real>(), *in = x.data_ptr<Real>();
  Real* out = y.data_ptr<Real>();
  at::parallel_for(0, blocks, 1, [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n) {
      TileProduct<Real>{.rows = to,
                        .inner = from,
                        .columns = inner,
                        .a = m,
                        .a_row = transposed ? 1 : from,
                        .a_step = transposed ? to : 1,
                        .b = in + n * from * inner,
                        .b_row = inner,
                        .c = out + n * to * inner,
                        .c_row = inner}
          .run();
    }
  });
  return y;
}

template <class Real>
Tensor fused_blocks(const Tensor& matrix, const Tensor& x) {
  const auto m = matrix.contiguous();
  const auto y = blocks_by<Real>(m, x.detach().contiguous(), false);
  if (!torch::autograd::compute_requires_grad(x)) return y;
  ListFunction::record(
      {y}, {x}, [m](const Tensors& gradients, const ListFunction&) -> Tensors {
        return {blocks_by<Real>(m, gradients[0].contiguous(), true)};
      });
  return y;
}

}  // namespace

Tensor axis_product(const Tensor& matrix, const Tensor& x) {
  RECORD_FUNCTION("propagator::axis_product",
                  c10::ArrayRef<const c10::IValue>({matrix, x}));
  const auto type = x.scalar_type();
  const auto fits = [&](int64_t width) {
    return x.is_cpu() && x.numel() > 0 && x.size(2) % width == 0 &&
           matrix.scalar_type() == type && !matrix.requires_grad() &&
           !autocast_enabled(x.device());
  };
  if (type == torch::kFloat32 && fits(Lanes<float>::kWidth)) {
    return fused_blocks<float>(matrix, x);
  }
  if (type == torch::kFloat64 && fits(Lanes<double>::kWidth)) {
    return fused_blocks<double>(matrix, x);
  }
  return axis_product_reference(matrix, x);
}

Tensor axis_product_reference(const Tensor& matrix, const Tensor& x) {
  return torch::matmul(x.transpose(1, 2), matrix.t()).transpose(1, 2);
}

}  // namespace propagator::kernels
