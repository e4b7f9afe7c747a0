#include "propagator/nn/grid_conv.h"

#include <fmt/ranges.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <stdexcept>

namespace propagator::nn {
namespace {

using torch::Tensor;

Tensor padded_along(const Tensor& x, int64_t axis, bool periodic,
                    int64_t width) {
  const int64_t nodes = x.size(axis);
  if (periodic) {
    return torch::cat(
        {x.narrow(axis, nodes - width, width), x, x.narrow(axis, 0, width)},
        axis);
  }
  auto shape = x.sizes().vec();
  shape[static_cast<size_t>(axis)] = width;
  return torch::cat({x.narrow(axis, 0, 1).expand(shape), x,
                     x.narrow(axis, nodes - 1, 1).expand(shape)},
                    axis);
}

}  // namespace

Tensor padded(const Tensor& x, const std::vector<bool>& periodic,
              int64_t width) {
  const auto axes = std::ssize(periodic);
  bool fits = x.dim() == axes + 2;
  for (int64_t d = 1; fits && d <= axes; ++d) fits = x.size(d) >= width;
  if (!fits) {
    throw std::invalid_argument(fmt::format(
        "[grid_conv] expected cases on {} axes of {} nodes or more, got ({})",
        axes, width, fmt::join(x.sizes(), ", ")));
  }
  auto wider = x;
  for (int64_t d = 0; d < axes && width > 0; ++d) {
    wider = padded_along(wider, d + 1, periodic[static_cast<size_t>(d)], width);
  }
  return wider;
}

Tensor refined(const Tensor& x, int64_t axes) {
  auto fine = x;
  for (int64_t d = 1; d <= axes; ++d) {
    auto shape = fine.sizes().vec();
    shape.insert(shape.begin() + d + 1, 2);
    fine = fine.unsqueeze(d + 1).expand(shape).flatten(d, d + 1);
  }
  return fine;
}

GridConvImpl::GridConvImpl(const GridConvOptions& options) : options_(options) {
  std::vector<int64_t> shape(options.periodic.size() + 2,
                             2 * options.reach + 1);
  shape[0] = options.out;
  shape[1] = options.in;
  weight_ = register_parameter("weight", torch::zeros(shape));
  if (options.bias) {
    bias_ = register_parameter("bias", torch::zeros({options.out}));
  }
}

Tensor GridConvImpl::forward(const Tensor& x) {
  const auto axes = std::ssize(options_.periodic);
  const auto first =
      padded(x, options_.periodic, options_.reach).movedim(-1, 1);
  const auto& stride = options_.stride;
  const auto y = axes == 1   ? torch::conv1d(first, weight_, bias_, stride)
                 : axes == 2 ? torch::conv2d(first, weight_, bias_, stride)
                             : torch::conv3d(first, weight_, bias_, stride);
  return y.movedim(1, -1);
}

}  // namespace propagator::nn
