#include "propagator/kernels/product.h"

#include "propagator/kernels/cuda.h"

namespace propagator::kernels {

torch::Tensor product_reference(const torch::Tensor& a, const torch::Tensor& b,
                                const ProductOptions& o) {
  auto out = torch::matmul(a, b) * o.scale;
  if (o.add.defined()) out = out + o.add;
  if (o.bias.defined()) out = out + o.bias;
  return o.relu ? torch::relu(out) : out;
}

void product(torch::Tensor out, const torch::Tensor& a, const torch::Tensor& b,
             const ProductOptions& options) {
  const auto& o = options;
  if (out.is_cuda()) {
    product_cuda(out, a, b, o);
  } else if (o.scale == 1 && !o.relu && !o.add.defined() && !o.bias.defined()) {
    at::matmul_out(out, a, b);
  } else {
    out.copy_(product_reference(a, b, o));
  }
}

}  // namespace propagator::kernels
