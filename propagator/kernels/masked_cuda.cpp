#include "propagator/kernels/affine_flow.cuh"
#include "propagator/kernels/cuda.h"
#include "propagator/kernels/launch.h"
#include "propagator/kernels/list_function.h"
#include "propagator/kernels/masked_mlp.cuh"

namespace propagator::kernels {
namespace {

using torch::Tensor;
using Tensors = std::vector<Tensor>;

int number(int64_t n) { return static_cast<int>(n); }

MaskedShape shape_of(const Tensors& layers) {
  const auto &first = layers[0], &last = layers[layers.size() - 3];
  return {number(first.size(1)), number(first.size(0)), number(last.size(0)),
          number(std::ssize(layers) / 3)};
}

// The layers of a network, as number `first` and those after it.
void point_to(const Tensors& layers, size_t first, MaskedLayers& to) {
  for (size_t n = 0; n < layers.size(); n += 3) {
    to.at[first + n / 3] = {pointer<float>(layers[n]),
                            pointer<float>(layers[n + 1]),
                            pointer<float>(layers[n + 2])};
  }
}

// Of weights and biases; masks have none.
void add_layers(const Tensors& layers, GradientParts& parts, Tensors& to) {
  for (size_t n = 0; n < layers.size(); ++n) {
    to.push_back(n % 3 == 2 ? Tensor() : parts.like(layers[n]));
  }
}

Tensor numbers_like(const Tensor& x, int64_t count) {
  return torch::empty({count}, x.options());
}

float* pointer_or_null(const Tensor& x) {
  return x.defined() ? pointer<float>(x) : nullptr;
}

FlowShape shape_of(const FlowRows& rows) {
  return {number(std::ssize(rows.maps)), number(rows.x.size(1)),
          shape_of(rows.maps.front().layers), static_cast<float>(rows.most)};
}

FlowMaps maps_of(const FlowRows& rows) {
  FlowMaps maps{};
  for (size_t m = 0; m < rows.maps.size(); ++m) {
    const auto& [shift, log_scale, layers] = rows.maps[m];
    point_to(layers, m * layers.size() / 3, maps.layers);
    maps.shift[m] = pointer<float>(shift);
    maps.log_scale[m] = pointer<float>(log_scale);
  }
  return maps;
}

}  // namespace

bool masked_mlp_cuda_has(int64_t layers) { return layers <= kMaskedMostLayers; }

MaskedForward masked_mlp_cuda(const Tensor& x, const Tensors& layers,
                              bool keeps) {
  const auto shape = shape_of(layers);
  const int64_t rows = x.size(0);
  MaskedForward forward{torch::empty({rows, shape.out}, x.options()), {}};
  if (keeps) forward.saved = numbers_like(x, masked_mlp_saved(shape, rows));
  MaskedLayers pointers{};
  point_to(layers, 0, pointers);
  launch_masked_mlp(shape, pointers, rows, pointer<float>(x),
                    pointer<float>(forward.y), pointer_or_null(forward.saved),
                    getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return forward;
}

Tensors masked_mlp_backward_cuda(const Tensor& x, const Tensors& layers,
                                 const Tensor& saved, const Tensor& dy,
                                 bool of_x) {
  const auto shape = shape_of(layers);
  const int64_t rows = x.size(0);
  const auto dx = of_x ? torch::empty_like(x) : Tensor();
  const auto gradients = numbers_like(x, shape.parameters());
  const auto workspace = numbers_like(x, masked_mlp_workspace(shape, rows));
  MaskedLayers pointers{};
  point_to(layers, 0, pointers);
  launch_masked_mlp_backward(shape, pointers, rows, pointer<float>(x),
                             pointer<float>(saved), pointer<float>(dy),
                             pointer_or_null(dx), pointer<float>(gradients),
                             pointer<float>(workspace), getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  Tensors all{dx};
  GradientParts parts(gradients);
  add_layers(layers, parts, all);
  return all;
}

bool affine_flow_cuda_has(int64_t maps, int64_t layers) {
  return maps <= kFlowMostMaps && maps * layers <= kMaskedMostLayers;
}

FlowForward affine_flow_cuda(const FlowRows& in, bool keeps) {
  const auto shape = shape_of(in);
  const int64_t rows = in.x.size(0);
  FlowForward out{torch::empty_like(in.x), numbers_like(in.x, rows), {}};
  if (keeps) out.saved = numbers_like(in.x, affine_flow_saved(shape, rows));
  launch_affine_flow(shape, maps_of(in), rows, pointer<float>(in.x),
                     pointer<float>(in.given), pointer<float>(out.value),
                     pointer<float>(out.log_slope), pointer_or_null(out.saved),
                     getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}

Tensors affine_flow_backward_cuda(const FlowRows& in, const Tensor& saved,
                                  const Tensor& du, const Tensor& dlog_slope,
                                  bool of_given) {
  const auto shape = shape_of(in);
  const int64_t rows = in.x.size(0);
  const auto dx = torch::empty_like(in.x);
  const auto dgiven = of_given ? torch::empty_like(in.given) : Tensor();
  const auto gradients = numbers_like(in.x, shape.maps * shape.parameters());
  const auto workspace = numbers_like(in.x, affine_flow_workspace(shape, rows));
  launch_affine_flow_backward(
      shape, maps_of(in), rows, pointer<float>(in.given), pointer<float>(saved),
      pointer<float>(du), pointer<float>(dlog_slope), pointer<float>(dx),
      pointer_or_null(dgiven), pointer<float>(gradients),
      pointer<float>(workspace), getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  Tensors all{dx, dgiven};
  GradientParts parts(gradients);
  for (const auto& map : in.maps) {
    add_layers(map.layers, parts, all);
    all.push_back(parts.like(map.shift));
    all.push_back(parts.like(map.log_scale));
  }
  return all;
}

}  // namespace propagator::kernels
