#include "propagator/kernels/affine_flow.h"

#include <torch/utils.h>

#include <algorithm>

#include "propagator/kernels/cuda.h"
#include "propagator/kernels/list_function.h"
#include "propagator/kernels/masked_mlp.h"

namespace propagator::kernels {
namespace {

using torch::Tensor;
using Tensors = std::vector<Tensor>;

Tensors flow_inputs(const Tensor& x, const Tensor& given,
                    const std::vector<FlowMapWeights>& maps) {
  Tensors all{x, given};
  for (const auto& map : maps) {
    all.insert(all.end(), map.layers.begin(), map.layers.end());
    all.insert(all.end(), {map.shift, map.log_scale});
  }
  return all;
}

std::vector<FlowMapWeights> plain_maps(
    const std::vector<FlowMapWeights>& maps) {
  const auto plain = [](const Tensor& x) { return x.detach().contiguous(); };
  auto all = maps;
  for (auto& map : all) {
    map.shift = plain(map.shift);
    map.log_scale = plain(map.log_scale);
    for (auto& one : map.layers) one = plain(one);
  }
  return all;
}

// Of u and log_slope, zeros where nobody asked for it.
Tensor gradient_like(const Tensor& gradient, const Tensor& value) {
  return gradient.defined() ? gradient.contiguous() : torch::zeros_like(value);
}

FlowValues fused_flow(const Tensor& x, const Tensor& given,
                      const std::vector<FlowMapWeights>& maps, double most) {
  const FlowRows rows{x.detach().contiguous(), given.detach().contiguous(),
                      plain_maps(maps), most};
  const auto inputs = flow_inputs(x, given, maps);
  const bool keeps = torch::autograd::compute_requires_grad(inputs);
  const auto forward = affine_flow_cuda(rows, keeps);
  const FlowValues values{forward.value, forward.log_slope};
  if (!keeps) return values;
  const auto backward = [rows, saved = forward.saved](
                            const Tensors& gradients,
                            const ListFunction& node) -> Tensors {
    return affine_flow_backward_cuda(
        rows, saved, gradient_like(gradients[0], rows.x),
        gradient_like(gradients[1], rows.x.select(1, 0)), node.wants(1));
  };
  ListFunction::record({values.value, values.log_slope}, inputs, backward);
  return values;
}

}  // namespace

bool has_affine_flow(const Tensor& x, const Tensor& given,
                     const std::vector<FlowMapWeights>& maps) {
  if (!x.is_cuda() || x.scalar_type() != torch::kFloat32 || x.numel() == 0 ||
      given.scalar_type() != x.scalar_type() || maps.empty() ||
      !affine_flow_cuda_has(std::ssize(maps),
                            std::ssize(maps.front().layers) / 3)) {
    return false;
  }
  return std::ranges::all_of(maps, [&](const FlowMapWeights& map) {
    const auto& front = maps.front().layers;
    return has_masked_mlp(x, map.layers) &&
           map.layers.front().size(1) == x.size(1) + given.size(1) &&
           std::ranges::equal(map.layers, front,
                              [](const Tensor& a, const Tensor& b) {
                                return a.sizes() == b.sizes();
                              });
  });
}

FlowValues affine_flow_reference(const Tensor& x, const Tensor& given,
                                 const std::vector<FlowMapWeights>& maps,
                                 double most) {
  auto value = x;
  Tensors slopes, scales;  // logarithms, added up at the end
  for (const auto& map : maps) {
    const auto at = (value - map.shift) * torch::exp(map.log_scale);
    const auto known = given.size(1) > 0 ? torch::cat({at, given}, 1) : at;
    const auto numbers =
        masked_mlp(known, map.layers).view({x.size(0), x.size(1), 2});
    const auto slope = torch::tanh(numbers.select(-1, 1) * (1 / most)) * -most;
    value = (at - numbers.select(-1, 0)) * torch::exp(slope);
    slopes.push_back(slope);
    scales.push_back(map.log_scale);
  }
  return {value, torch::cat(slopes, 1).sum(1) + torch::cat(scales).sum()};
}

FlowValues affine_flow(const Tensor& x, const Tensor& given,
                       const std::vector<FlowMapWeights>& maps, double most) {
  return has_affine_flow(x, given, maps)
             ? fused_flow(x, given, maps, most)
             : affine_flow_reference(x, given, maps, most);
}

}  // namespace propagator::kernels
