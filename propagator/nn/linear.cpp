#include "propagator/nn/linear.h"

#include "propagator/core/torch_compat.h"
#include "propagator/kernels/encoder/few_rows_linear.h"
#include "propagator/nn/fused_layer.h"

namespace propagator::nn {

torch::nn::Linear linear_without_bias(int64_t inputs, int64_t outputs) {
  return torch::nn::Linear(
      torch::nn::LinearOptions(inputs, outputs).bias(false));
}

torch::Tensor apply_linear(torch::nn::Linear& layer, const torch::Tensor& x) {
  if (fusing_pays(x) && layer->bias.defined()) {
    return fused_linear(x, layer->weight, layer->bias);
  }
  const int64_t inputs = layer->weight.size(1);
  const bool few = x.numel() <= kernels::kFewRows * inputs;
  if (!few || !x.is_cpu() || c10::GradMode::is_enabled() ||
      autocast_enabled(x.device())) {
    return layer->forward(x);
  }
  auto shape = x.sizes().vec();
  shape.back() = layer->weight.size(0);
  return kernels::few_rows_linear(x.reshape({-1, inputs}), layer->weight,
                                  layer->bias)
      .view(shape);
}

torch::Tensor apply_norm(torch::nn::LayerNorm& norm, const torch::Tensor& x) {
  if (fusing_pays(x)) {
    return fused_norm(x, norm->weight, norm->bias, norm->options.eps());
  }
  // In bf16 what comes from a product is of another type than the weights,
  // which libtorch's norm on the CPU does not take; on a GPU it does just this.
  return norm->forward(x.to(norm->weight.scalar_type()));
}

}  // namespace propagator::nn
