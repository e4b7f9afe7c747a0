#include "propagator/nn/linear.h"

#include "propagator/core/torch_compat.h"
#include "propagator/kernels/few_rows_linear.h"

namespace propagator::nn {

torch::Tensor apply_linear(torch::nn::Linear& layer, const torch::Tensor& x) {
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

}  // namespace propagator::nn
